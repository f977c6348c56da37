/** Figures and states as words. No user interface here. */

import { TranslationBundle } from '@jupyterlab/translation';

import { ISituation } from './tokens';
import {
  IDeviceUsage,
  IEnforcedBy,
  IGuaranteed,
  INotebook,
  IPressure,
  IProcess
} from './wire';

const UNITS = ['B', 'KiB', 'MiB', 'GiB'];
/** So many devices are told one by one where there is little room. */
const MOST_SINGLE = 2;

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

/** Bytes for the edge of a chart: `19.8 G`. */
export function bytesShort(count: number): string {
  let amount = count;
  let unit = 0;
  while (amount >= 1024 && unit < UNITS.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${amount.toFixed(amount < 100 && unit > 0 ? 1 : 0)} ${UNITS[unit][0]}`;
}

/** A fraction for people: `43 %`. */
export function percent(fraction: number): string {
  return `${Math.round(fraction * 100)} %`;
}

/** A time span of minutes for people: `5 min`. */
export function duration(seconds: number, trans: TranslationBundle): string {
  return trans.__('%1 min', Math.round(seconds / 60));
}

/** A longer time span: `2 h 05 min`, `9 min`, and less than one as `1 min`. */
export function span(seconds: number, trans: TranslationBundle): string {
  const minutes = Math.max(1, Math.ceil(seconds / 60));
  return minutes < 60
    ? trans.__('%1 min', minutes)
    : trans.__(
        '%1 h %2 min',
        Math.floor(minutes / 60),
        String(minutes % 60).padStart(2, '0')
      );
}

/** What neighbours do: `2 at work, 60 %`. */
export function pressure(by: IPressure, trans: TranslationBundle): string {
  return by.neighbours === 0
    ? trans.__('none at work')
    : trans.__('%1 at work, %2', by.neighbours, percent(by.gpu_time_fraction));
}

/** How a guarantee was kept: `12.5 %, missed in 3 s`. */
export function guaranteed(by: IGuaranteed, trans: TranslationBundle): string {
  const least = `${Number((by.least * 100).toPrecision(3))} %`;
  if (by.violations === 0) {
    return trans.__('%1, never missed', least);
  }
  return by.raised
    ? trans.__('%1, missed in %2 s, and now', least, count(by.violations))
    : trans.__('%1, missed in %2 s', least, count(by.violations));
}

/** A count for people: `1,234`. */
export function count(value: number): string {
  return value.toLocaleString(undefined, { maximumFractionDigits: 0 });
}

/** A rate for people: `12.3`, `1,234`. */
export function rate(value: number): string {
  const maximumFractionDigits = value < 100 ? 1 : 0;
  return value.toLocaleString(undefined, { maximumFractionDigits });
}

/** GPU-hours for people, small ones with two digits: `2.5`, `0.012`. */
export function hours(value: number): string {
  return value >= 1
    ? rate(value)
    : value.toLocaleString(undefined, { maximumSignificantDigits: 2 });
}

/** A message as a sentence: it begins and ends as one. */
export function sentence(text: string): string {
  const end = /[.!?…]$/.test(text) ? '' : '.';
  return text && `${text[0].toUpperCase()}${text.slice(1)}${end}`;
}

/** A device's name; where the slice has several, with the number that programs know it by: `GPU 0: NVIDIA H200`. */
export function deviceName(
  device: IDeviceUsage,
  devices: readonly IDeviceUsage[],
  trans: TranslationBundle
): string {
  return devices.length > 1
    ? trans.__('GPU %1: %2', devices.indexOf(device), device.name)
    : device.name;
}

/** How full the slice's memory is, 0..1; a limit of nothing is full. */
export function fullness(device: IDeviceUsage): number {
  const limit = device.memory_limit_bytes;
  return limit > 0 ? Math.min(1, device.memory_used_bytes / limit) : 1;
}

/** The same in a few characters, with the GPU time where it is measured: `1.0/20.0 GiB 43 %`. */
export function short(device: IDeviceUsage): string {
  const limit = device.memory_limit_bytes;
  const unit = Math.min(
    UNITS.length - 1,
    Math.floor(Math.log2(Math.max(1, limit)) / 10)
  );
  const size = (count: number): string => (count / 1024 ** unit).toFixed(1);
  const memory = `${size(device.memory_used_bytes)}/${size(limit)} ${UNITS[unit]}`;
  return device.gpu_time_fraction === undefined
    ? memory
    : `${memory} ${percent(device.gpu_time_fraction)}`;
}

/** All devices in a few characters: `GPU: 1.0/20.0 GiB 43 %`; from three on together: `8 GPUs: 75.2/158.4 GiB 43 %`. */
export function shortOfAll(
  devices: readonly IDeviceUsage[],
  trans: TranslationBundle
): string {
  if (devices.length <= MOST_SINGLE) {
    return trans.__('GPU: %1', devices.map(short).join(' · '));
  }
  const sum = (of: (device: IDeviceUsage) => number): number =>
    devices.reduce((all, device) => all + of(device), 0);
  const isTimed = devices.every(
    device => device.gpu_time_fraction !== undefined
  );
  const together: IDeviceUsage = {
    ...devices[0],
    memory_used_bytes: sum(device => device.memory_used_bytes),
    memory_limit_bytes: sum(device => device.memory_limit_bytes),
    gpu_time_fraction: isTimed
      ? sum(device => device.gpu_time_fraction!) / devices.length
      : undefined
  };
  return trans.__('%1 GPUs: %2', devices.length, short(together));
}

/** Memory against its limit: `1.0 GiB of 20.0 GiB`. */
export function memory(device: IDeviceUsage, trans: TranslationBundle): string {
  return trans.__(
    '%1 of %2',
    bytes(device.memory_used_bytes),
    bytes(device.memory_limit_bytes)
  );
}

/** Whether the slice's memory is as full as the user wants to be warned of. */
export function isTight(device: IDeviceUsage, warnAtPercent: number): boolean {
  return fullness(device) * 100 >= warnAtPercent;
}

/** What to warn about and what to do, code between backticks; empty when there is nothing. */
export function warning(
  device: IDeviceUsage,
  notebooks: readonly INotebook[],
  warnAtPercent: number,
  trans: TranslationBundle
): string {
  if (!isTight(device, warnAtPercent)) {
    return '';
  }
  const free = Math.max(
    0,
    device.memory_limit_bytes - device.memory_used_bytes
  );
  const left = trans.__('Memory is nearly used up: %1 left.', bytes(free));
  const most = largest(notebooks, device.uuid);
  return most === null
    ? `${left} ${trans.__('End a process that you no longer need.')}`
    : `${left} ${trans.__(
        '%1 holds most: run `%vgpu free` there to give back what is only cached, or restart its Jupyter kernel below.',
        notebookName(most, trans)
      )}`;
}

/** The notebook that holds most memory, of one device or of all; null when none holds any. */
export function largest(
  notebooks: readonly INotebook[],
  uuid?: string
): INotebook | null {
  let found: INotebook | null = null;
  let most = 0;
  for (const notebook of notebooks) {
    const memory = held(notebook, uuid).memory;
    if (memory > most) {
      most = memory;
      found = notebook;
    }
  }
  return found;
}

/** A notebook's name: the file's, or that of the Jupyter kernel when it runs for none. */
export function notebookName(
  notebook: INotebook,
  trans: TranslationBundle
): string {
  const name = notebook.path.split('/').pop();
  return name || trans.__('Jupyter kernel %1', notebook.kernel_name);
}

/** What a process or notebook holds on one device, or on all of the slice. */
export function held(
  holder: Pick<IProcess, 'devices'>,
  uuid?: string
): { memory: number; launches: number } {
  return holder.devices
    .filter(device => uuid === undefined || device.uuid === uuid)
    .reduce(
      (sum, device) => ({
        memory: sum.memory + device.memory_bytes,
        launches: sum.launches + device.launches
      }),
      { memory: 0, launches: 0 }
    );
}

/** GPU time of a notebook over all devices, 0..1 and more; null where nobody measures it. */
export function gpuTime(notebook: INotebook): number | null {
  const known = notebook.devices
    .map(device => device.gpu_time_fraction)
    .filter((value): value is number => value !== undefined);
  return known.length > 0 ? known.reduce((a, b) => a + b, 0) : null;
}

/** What a notebook has of the slice now: `2.0 GiB, 43 %`. */
export function holds(notebook: INotebook, trans: TranslationBundle): string {
  const memory = bytes(held(notebook).memory);
  const fraction = gpuTime(notebook);
  return fraction === null
    ? memory
    : trans.__('%1, %2', memory, percent(fraction));
}

/**
 * Whether the enforcement was verified, and how long ago: `1 s ago`.
 *
 * @param now - The agent's clock, Unix seconds: the browser's may differ.
 */
export function verification(
  by: IEnforcedBy,
  now: number,
  trans: TranslationBundle
): string {
  if (!by.verified) {
    return trans.__('not yet');
  }
  return by.verified_at === null
    ? trans.__('yes')
    : ago(Math.max(0, now - by.verified_at), trans);
}

function ago(seconds: number, trans: TranslationBundle): string {
  if (seconds < 60) {
    return trans.__('%1 s ago', Math.round(seconds));
  }
  return seconds < 3600
    ? trans.__('%1 min ago', Math.round(seconds / 60))
    : trans.__('%1 h ago', Math.round(seconds / 3600));
}

/** What limits the trust in the enforcement, as a sentence; empty when nothing does. */
export function caveat(by: IEnforcedBy, trans: TranslationBundle): string {
  const note = by.note || (by.isolated ? '' : trans.__('not isolated'));
  return sentence(note);
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

/** Whether there is a slice whose figures are missing, as far as the server knows. */
export function isLost(state: string): boolean {
  return ['agent-unreachable', 'unknown-claim', 'not-authorized'].includes(
    state
  );
}

/** What may help, besides what the server says; empty when nothing is known to. */
export function hint(state: string, trans: TranslationBundle): string {
  switch (state) {
    case 'agent-unreachable':
      return trans.__(
        'Programs that use the GPU go on; new ones get it once the agent answers again, which this page finds out by itself. If it does not, tell whoever looks after this machine.'
      );
    case 'no-extension':
      return trans.__(
        'Install jupyter-vgpu where this Jupyter server runs, and start the server again.'
      );
    case 'refused':
      return trans.__('Reload this page and log in again.');
    case 'server-unreachable':
      return trans.__('Trying again by itself.');
    case 'server-stopped':
      return trans.__(
        'Start it again from the hub to go on; this page can stay open.'
      );
    case 'bad-answer':
      return trans.__(
        'This page and the server are of different versions: reload this page.'
      );
    default:
      return '';
  }
}

/** The time of day: `12:03`. */
export function clock(time: Date): string {
  return time.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
}

/** A state without figures, in a few words: `Agent not reachable`. */
export function stateName(state: string, trans: TranslationBundle): string {
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
    case 'server-stopped':
      return trans.__('Server stopped');
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
