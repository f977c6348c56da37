/**
 * What the server sends, and the guards that let it in. Field names match
 * `docs/contracts.md`; sizes are bytes, times Unix seconds.
 */

/** How strongly a slice is enforced: as verified, not as requested. */
export interface IEnforcedBy {
  readonly backend: string;
  readonly level: string;
  readonly verified: boolean;
  readonly verified_at: number | null;
  readonly isolated: boolean;
  readonly note: string;
}

/** One device of the slice. */
export interface ISliceDevice {
  readonly uuid: string;
  readonly name: string;
  readonly simulated: boolean;
  readonly memory_limit_bytes: number;
  readonly total_bytes: number;
}

/** What the user was given. */
export interface ISlice {
  readonly claim: string;
  readonly profile: string;
  readonly devices: readonly ISliceDevice[];
}

/** What the slice uses of one device at one moment. */
export interface IDeviceUsage {
  readonly uuid: string;
  readonly name: string;
  readonly memory_used_bytes: number;
  readonly memory_limit_bytes: number;
  readonly memory_overhead_bytes: number;
  readonly launches: number;
  readonly launches_per_second: number;
}

/** What one process uses of one device. */
export interface IProcessDevice {
  readonly uuid: string;
  readonly memory_bytes: number;
  readonly launches: number;
}

/** One process of the user that uses the slice. */
export interface IProcess {
  readonly pid: number;
  readonly name: string;
  readonly devices: readonly IProcessDevice[];
}

/** What the slice uses at one moment. */
export interface IUsage {
  readonly time: number;
  readonly devices: readonly IDeviceUsage[];
  readonly processes: readonly IProcess[];
  readonly enforced_by: IEnforcedBy;
}

/** One event of `jupyter-vgpu/live`. */
export interface IReading {
  /** `ok`, or the stable name of what stands in the way. */
  readonly state: string;
  /** One sentence for the user; empty when the state is `ok`. */
  readonly message: string;
  /** Since when the state has been what it is. */
  readonly since_at: number;
  /** Null unless the state is `ok`, and so is `usage`. */
  readonly slice: ISlice | null;
  readonly usage: IUsage | null;
}

/** Narrow a decoded event; a newer server may send fields we do not know. */
export function isReading(value: unknown): value is IReading {
  const reading = value as Partial<IReading> | null;
  if (
    typeof reading?.state !== 'string' ||
    typeof reading.message !== 'string' ||
    !Number.isFinite(reading.since_at)
  ) {
    return false;
  }
  return reading.state === 'ok'
    ? isSlice(reading.slice) && isUsage(reading.usage)
    : reading.slice === null && reading.usage === null;
}

function isSlice(value: unknown): value is ISlice {
  const slice = value as Partial<ISlice> | null;
  return (
    typeof slice?.claim === 'string' &&
    typeof slice.profile === 'string' &&
    isListOf(slice.devices, isSliceDevice)
  );
}

function isSliceDevice(value: unknown): value is ISliceDevice {
  const device = value as Partial<ISliceDevice> | null;
  return (
    typeof device?.uuid === 'string' &&
    typeof device.name === 'string' &&
    typeof device.simulated === 'boolean' &&
    isAmount(device.memory_limit_bytes) &&
    isAmount(device.total_bytes)
  );
}

function isUsage(value: unknown): value is IUsage {
  const usage = value as Partial<IUsage> | null;
  return (
    isAmount(usage?.time) &&
    isListOf(usage?.devices, isDeviceUsage) &&
    isListOf(usage?.processes, isProcess) &&
    isEnforcedBy(usage?.enforced_by)
  );
}

function isDeviceUsage(value: unknown): value is IDeviceUsage {
  const device = value as Partial<IDeviceUsage> | null;
  return (
    typeof device?.uuid === 'string' &&
    typeof device.name === 'string' &&
    isAmount(device.memory_used_bytes) &&
    isAmount(device.memory_limit_bytes) &&
    isAmount(device.memory_overhead_bytes) &&
    isAmount(device.launches) &&
    isAmount(device.launches_per_second)
  );
}

function isProcess(value: unknown): value is IProcess {
  const process = value as Partial<IProcess> | null;
  return (
    isAmount(process?.pid) &&
    typeof process?.name === 'string' &&
    isListOf(process.devices, isProcessDevice)
  );
}

function isProcessDevice(value: unknown): value is IProcessDevice {
  const device = value as Partial<IProcessDevice> | null;
  return (
    typeof device?.uuid === 'string' &&
    isAmount(device.memory_bytes) &&
    isAmount(device.launches)
  );
}

function isEnforcedBy(value: unknown): value is IEnforcedBy {
  const by = value as Partial<IEnforcedBy> | null;
  return (
    typeof by?.backend === 'string' &&
    typeof by.level === 'string' &&
    typeof by.verified === 'boolean' &&
    (by.verified_at === null || isAmount(by.verified_at)) &&
    typeof by.isolated === 'boolean' &&
    typeof by.note === 'string'
  );
}

/** A finite number that is not negative. */
function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

function isListOf<T>(
  value: unknown,
  isItem: (item: unknown) => item is T
): value is readonly T[] {
  return Array.isArray(value) && value.every(isItem);
}
