import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { sessionWarnings } from './session';
import { ISituation } from './tokens';
import * as words from './words';

/** A message as the server writes it: what stands between backticks is code. */
function withCode(text: string): React.ReactNode[] {
  return text
    .split(/`([^`]+)`/)
    .map((part, index) =>
      index % 2 === 1 ? <code key={index}>{part}</code> : part
    );
}

/** What a screen reader is told when it changes: states and warnings. */
export function Notices(props: {
  situation: ISituation;
  warnAtPercent: number;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { situation, warnAtPercent, trans } = props;
  const { state, message, usage, notebooks } = situation;
  const warnings = (usage?.devices ?? [])
    .map(device => words.warning(device, notebooks, warnAtPercent, trans))
    .filter(text => text !== '')
    .concat(sessionWarnings(situation.session, trans));
  const help = [words.sentence(message), words.hint(state, trans)];
  return (
    <div role="status" aria-live="polite">
      {state !== 'ok' && (
        <div className="jp-VGPUPanel-notice" data-state={state}>
          <strong>{words.heading(situation, trans)}</strong>
          {help
            .filter(text => text !== '')
            .map((text, index) => (
              <p key={index}>{withCode(text)}</p>
            ))}
        </div>
      )}
      {warnings.map((text, index) => (
        <div key={index} className="jp-VGPUPanel-notice jp-mod-warning">
          {withCode(text)}
        </div>
      ))}
    </div>
  );
}
