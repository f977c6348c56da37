/** Figures and states as words. No user interface here. */

import { TranslationBundle } from '@jupyterlab/translation';

import { ISituation } from './tokens';
import { IDeviceUsage, IEnforcedBy, IProcess } from './wire';

const UNITS = ['B', 'KiB', 'MiB', 'GiB'];

/** Part of its memory limit at which a slice is said to be nearly full. */
const NEARLY_FULL = 0.9;

/** Bytes for people, as the Python side writes them: `10.0 GiB`. */
export function bytes(count: number): string {
  let amount = count;
  for (const unit of UNITS) {
    if (amount < 1024) {
      return unit === 'B' ? `${amount} B` : `${amount.toFixed(1)} ${unit}`;
    }
    amount /= 1024;
  }
  return `${amount.toFixed(1)} TiB`;
}

/** A count for people: `1,234`. */
export function count(value: number): string {
  return value.toLocaleString(undefined, { maximumFractionDigits: 0 });
}

/** A rate for people: `12.3`. */
export function rate(value: number): string {
  return value.toLocaleString(undefined, { maximumFractionDigits: 1 });
}

/** How full the slice's memory is, 0..1; a limit of nothing is full. */
export function fullness(device: IDeviceUsage): number {
  const limit = device.memory_limit_bytes;
  return limit > 0 ? Math.min(1, device.memory_used_bytes / limit) : 1;
}

/** Memory against its limit: `1.0 GiB of 20.0 GiB`. */
export function memory(device: IDeviceUsage, trans: TranslationBundle): string {
  return trans.__(
    '%1 of %2',
    bytes(device.memory_used_bytes),
    bytes(device.memory_limit_bytes)
  );
}

/** What to warn about; empty when there is nothing. */
export function warning(
  device: IDeviceUsage,
  trans: TranslationBundle
): string {
  if (fullness(device) < NEARLY_FULL) {
    return '';
  }
  const free = Math.max(
    0,
    device.memory_limit_bytes - device.memory_used_bytes
  );
  return trans.__('Memory is nearly used up: %1 left.', bytes(free));
}

/** What one process holds on all devices of the slice. */
export function held(process: IProcess): { memory: number; launches: number } {
  return process.devices.reduce(
    (sum, device) => ({
      memory: sum.memory + device.memory_bytes,
      launches: sum.launches + device.launches
    }),
    { memory: 0, launches: 0 }
  );
}

/** Whether, and when, the enforcement was verified. */
export function verification(
  by: IEnforcedBy,
  trans: TranslationBundle
): string {
  if (!by.verified) {
    return trans.__('not yet');
  }
  return by.verified_at === null
    ? trans.__('yes')
    : clock(new Date(by.verified_at * 1000));
}

/** What limits the trust in the enforcement; empty when nothing does. */
export function caveat(by: IEnforcedBy, trans: TranslationBundle): string {
  return by.note || (by.isolated ? '' : trans.__('not isolated'));
}

/** A state without figures, as a heading: `Agent not reachable, since 12:03`. */
export function heading(
  situation: ISituation,
  trans: TranslationBundle
): string {
  if (situation.state === 'connecting') {
    return trans.__('Asking the server…');
  }
  if (situation.state === 'no-slice' || situation.since === null) {
    return stateName(situation.state, trans);
  }
  return trans.__(
    '%1, since %2',
    stateName(situation.state, trans),
    clock(situation.since)
  );
}

function stateName(state: string, trans: TranslationBundle): string {
  switch (state) {
    case 'no-slice':
      return trans.__('No GPU slice');
    case 'agent-unreachable':
      return trans.__('Agent not reachable');
    case 'unknown-claim':
      return trans.__('Slice given back');
    case 'not-authorized':
      return trans.__('Not allowed to see the slice');
    case 'no-driver':
      return trans.__('No NVIDIA driver');
    case 'server-unreachable':
      return trans.__('Server not reachable');
    case 'no-extension':
      return trans.__('Server extension not enabled');
    case 'refused':
      return trans.__('Not logged in');
    case 'bad-answer':
      return trans.__('Answer not understood');
    default:
      return trans.__('No figures (%1)', state);
  }
}

function clock(time: Date): string {
  return time.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
}
