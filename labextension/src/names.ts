/** What servers and agents call by a word of their own, in the user's language; a word that is not known stays. */

import { TranslationBundle } from '@jupyterlab/translation';

/** What a Jupyter kernel does: `busy`. */
export function kernelState(state: string, trans: TranslationBundle): string {
  // source: jupyter_client, "Messaging in Jupyter", kernel status; jupyter_server, `kernelmanager.py`
  switch (state) {
    case 'idle':
      return trans.__('idle');
    case 'busy':
      return trans.__('busy');
    case 'starting':
      return trans.__('starting');
    case 'restarting':
      return trans.__('restarting');
    case 'dead':
      return trans.__('dead');
    case 'unknown':
      return trans.__('state not known');
    default:
      return state;
  }
}

/** How far the enforcement can be trusted: `cooperative, audited`. */
export function trustLevel(level: string, trans: TranslationBundle): string {
  switch (level) {
    case 'cooperative':
      return trans.__('cooperative');
    case 'cooperative, audited':
      return trans.__('cooperative, audited');
    case 'whole device':
      return trans.__('whole device');
    default:
      return level;
  }
}
