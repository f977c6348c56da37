/** What was held back, counted and as words. No user interface here. */

import { TranslationBundle } from '@jupyterlab/translation';

import { IDeviceUsage, IGoverned, IProcess } from './wire';
import { count } from './words';

/** What some processes had of all devices; times are null where nobody measures them. */
export interface ICounters {
  readonly launches: number;
  readonly heldBack: number;
  readonly gpuSeconds: number | null;
  readonly waitedSeconds: number | null;
}

/** Whether anything was ever done to the slice so that others had their turn, or a ceiling held. */
export function wasHeldBack(device: IDeviceUsage): boolean {
  return (device.throttled_launches ?? 0) > 0 || tookTurns(device.governed);
}

/** Whether there is something to tell of turns. */
export function tookTurns(by: IGoverned | null | undefined): by is IGoverned {
  return !!by && by.windows + by.overruns + by.violations > 0;
}

/** The sums of what processes had. */
export function countersOf(processes: readonly IProcess[]): ICounters {
  const devices = processes.flatMap(process => process.devices);
  const sum = (values: readonly (number | undefined)[]): number | null =>
    values.reduce<number | null>(
      (all, value) =>
        all === null || value === undefined ? null : all + value,
      0
    );
  return {
    launches: sum(devices.map(device => device.launches)) ?? 0,
    heldBack: sum(devices.map(device => device.throttled_launches ?? 0)) ?? 0,
    gpuSeconds: sum(devices.map(device => device.gpu_time_seconds)),
    waitedSeconds: sum(devices.map(device => device.waited_seconds))
  };
}

/** A time span to a tenth: `1,234.5 s`. */
export function seconds(value: number, trans: TranslationBundle): string {
  const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  return trans.__('%1 s', value.toLocaleString(undefined, digits));
}

/** What of a slice was held back: `1,200 launches, for 3.4 s`. */
export function heldBack(
  device: IDeviceUsage,
  trans: TranslationBundle
): string {
  return trans.__(
    '%1 launches, for %2',
    count(device.throttled_launches ?? 0),
    seconds(device.gated_seconds ?? 0, trans)
  );
}

/** What of a notebook or process was: `1,100 of 2,000 launches`. */
export function heldBackOf(of: ICounters, trans: TranslationBundle): string {
  return trans.__('%1 of %2 launches', count(of.heldBack), count(of.launches));
}

/** How turns came and went: `40 given, 2 overrun`. */
export function windows(by: IGoverned, trans: TranslationBundle): string {
  return trans.__(
    '%1 given, %2 overrun',
    count(by.windows),
    count(by.overruns)
  );
}
