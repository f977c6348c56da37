import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IActions } from './actions';
import { Figure } from './figure';
import { ISession } from './wire';
import * as words from './words';

/** From so much time left on, there is a warning. */
const SOON_SECONDS = 600;
/** From so small a part of the quota left on, likewise. */
const LITTLE = 0.1;

/** How long the server may go on; nothing where nothing limits it. */
export function SessionSection(props: {
  session: ISession;
  actions: IActions;
  trans: TranslationBundle;
}): React.JSX.Element | null {
  const { session, actions, trans } = props;
  const { left_seconds, idle_left_seconds, gpu_hours_left } = session;
  if (
    left_seconds === undefined &&
    idle_left_seconds === undefined &&
    gpu_hours_left === undefined
  ) {
    return null;
  }
  return (
    <section className="jp-VGPUPanel-section" data-section="session">
      <h3>{trans.__('Session')}</h3>
      <dl>
        {left_seconds !== undefined && (
          <Figure name={trans.__('Ends in')} figure="session-left">
            {words.span(left_seconds, trans)}
          </Figure>
        )}
        {gpu_hours_left !== undefined && (
          <Figure name={trans.__('GPU-hours left')} figure="gpu-hours-left">
            {hours(session, gpu_hours_left, trans)}
          </Figure>
        )}
        {idle_left_seconds !== undefined && (
          <Figure name={trans.__('Stopped, if idle, in')} figure="idle-left">
            {words.span(idle_left_seconds, trans)}
          </Figure>
        )}
      </dl>
      {idle_left_seconds !== undefined && (
        <div className="jp-VGPUPanel-actions">
          <div className="jp-VGPUPanel-buttons">
            <button
              type="button"
              title={trans.__('Count the time anew from now')}
              onClick={() => void actions.keep()}
            >
              {trans.__('Keep')}
            </button>
          </div>
        </div>
      )}
    </section>
  );
}

/** What to warn of, one sentence each. */
export function sessionWarnings(
  session: ISession,
  trans: TranslationBundle
): string[] {
  const { left_seconds, idle_left_seconds } = session;
  const warnings = [];
  const { gpu_hours_left, gpu_hours_limit } = session;
  if (
    gpu_hours_left !== undefined &&
    gpu_hours_limit !== undefined &&
    gpu_hours_left <= LITTLE * gpu_hours_limit
  ) {
    const left = hours(session, gpu_hours_left, trans);
    warnings.push(
      gpu_hours_left > 0
        ? trans.__(
            'Your GPU-hours are nearly used up: %1 left. This server goes on; once they are, no other starts with a GPU until some come back.',
            left
          )
        : trans.__(
            'Your GPU-hours are used up: %1 left. This server goes on; no other starts with a GPU until some come back.',
            left
          )
    );
  }
  if (left_seconds !== undefined && left_seconds <= SOON_SECONDS) {
    warnings.push(
      trans.__(
        'Your server is stopped in %1, as its profile says: save what you need.',
        words.span(left_seconds, trans)
      )
    );
  }
  if (idle_left_seconds !== undefined && idle_left_seconds <= SOON_SECONDS) {
    warnings.push(
      trans.__(
        'Nothing has happened for a while: your server is stopped in %1 unless you go on, or press Keep below.',
        words.span(idle_left_seconds, trans)
      )
    );
  }
  return warnings;
}

function hours(
  session: ISession,
  left: number,
  trans: TranslationBundle
): string {
  const { gpu_hours_limit: limit, gpu_hours_again_at: again } = session;
  const amount =
    limit === undefined
      ? words.hours(left)
      : trans.__('%1 of %2', words.hours(left), words.hours(limit));
  return again === undefined
    ? amount
    : trans.__(
        '%1, more on %2',
        amount,
        new Date(again * 1000).toLocaleString([], {
          weekday: 'short',
          hour: '2-digit',
          minute: '2-digit'
        })
      );
}
