import * as React from 'react';

/** One row of a list of figures: its name, and the figure as text. */
export function Figure(
  props: React.PropsWithChildren<{ name: string; figure: string }>
): React.JSX.Element {
  return (
    <div className="jp-VGPUPanel-row">
      <dt>{props.name}</dt>
      <dd data-figure={props.figure}>{props.children}</dd>
    </div>
  );
}
