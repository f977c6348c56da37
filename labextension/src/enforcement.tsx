import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Figure } from './figure';
import { trustLevel } from './names';
import { IEvent, IUsage } from './wire';
import * as words from './words';

const MOST_EVENTS = 5;

/** How strongly the slice is enforced, as verified. */
export function Enforcement(props: {
  usage: IUsage;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { usage, trans } = props;
  const by = usage.enforced_by;
  const caveat = words.caveat(by, trans);
  return (
    <section className="jp-VGPUPanel-section">
      <h3>{trans.__('Enforcement')}</h3>
      <dl>
        <Figure name={trans.__('Enforced by')} figure="enforced-by">
          {by.backend}
        </Figure>
        <Figure name={trans.__('Trust level')} figure="trust-level">
          {trustLevel(by.level, trans)}
        </Figure>
        <Figure name={trans.__('Verified')} figure="verified">
          {words.verification(by, usage.time, trans)}
        </Figure>
      </dl>
      {caveat && (
        <p className="jp-VGPUPanel-dim" data-figure="note">
          {caveat}
        </p>
      )}
    </section>
  );
}

/** What the agent noticed, newest first; nothing while it noticed nothing. */
export function Events(props: {
  events: readonly IEvent[];
  trans: TranslationBundle;
}): React.JSX.Element | null {
  const { events, trans } = props;
  if (events.length === 0) {
    return null;
  }
  return (
    <section className="jp-VGPUPanel-section">
      <h3>{trans.__('Noticed')}</h3>
      <ul className="jp-VGPUPanel-events">
        {events
          .slice(-MOST_EVENTS)
          .reverse()
          .map(event => (
            <li key={`${event.at} ${event.kind}`}>
              <time
                className="jp-VGPUPanel-dim"
                dateTime={new Date(event.at * 1000).toISOString()}
              >
                {words.clock(new Date(event.at * 1000))}
              </time>{' '}
              {event.message}
            </li>
          ))}
      </ul>
    </section>
  );
}
