import * as React from 'react';

/** One row of a list of figures: its name, and the figure as text; `hint` says what it means. */
export function Figure(
  props: React.PropsWithChildren<{
    name: string;
    figure: string;
    hint?: string;
  }>
): React.JSX.Element {
  return (
    <div className="jp-VGPUPanel-row" title={props.hint}>
      <dt>{props.name}</dt>
      <dd data-figure={props.figure}>{props.children}</dd>
    </div>
  );
}
