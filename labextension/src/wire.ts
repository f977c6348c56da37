/**
 * What the server sends, and the guards that let it in. Field names match
 * `docs/contracts.md`; sizes are bytes, times Unix seconds.
 */

import { isAbsentOr, isAmount, isListOf } from './guards';

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
  /** Promised part of the device's time, 0..1; 0 where none is. */
  readonly share: number;
  /** Most of the device's time that it may use, 0..1. */
  readonly ceiling: number;
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
  /** Part of the last second in which the device worked for the slice, 0..1; absent where nobody measures it. */
  readonly gpu_time_fraction?: number;
  /** Part of the last second in which work waited for its turn, 0..1; absent likewise. */
  readonly waiting_fraction?: number;
  /** GPU time × the part of the SMs that the launches could fill, 0..1; absent where the meter does not know it. */
  readonly sm_usage?: number;
  /** GPU time since the agent took the claim up; absent where nobody measures it. */
  readonly gpu_time_seconds?: number;
  /** Time in which work waited for its turn since then; absent likewise. */
  readonly waited_seconds?: number;
  /** Launches that did not go at once; absent where an older agent does not tell. */
  readonly throttled_launches?: number;
  /** For how long they did not; absent likewise. */
  readonly gated_seconds?: number;
  /** Null where nobody governs; absent likewise. */
  readonly governed?: IGoverned | null;
  /** Absent where an older agent does not tell. */
  readonly pressure?: IPressure;
  /** Absent where nothing is guaranteed. */
  readonly guaranteed?: IGuaranteed;
}

/** What was done so that slices took turns. */
export interface IGoverned {
  readonly windows: number;
  /** Windows for which others waited longer than the work should have taken. */
  readonly overruns: number;
  /** Seconds in which the slice always wanted its share and had less. */
  readonly violations: number;
}

/** How what is guaranteed of the device's time in each second was kept. */
export interface IGuaranteed {
  /** The part, 0..1. */
  readonly least: number;
  /** Seconds in which the slice would have used that much and had less. */
  readonly violations: number;
  /** Whether it is asked for more loudly, after three of them in a row. */
  readonly raised: boolean;
}

/** What other slices did on the device within the last second: how many and how much, never who. */
export interface IPressure {
  readonly neighbours: number;
  /** GPU time that they had together, 0..1. */
  readonly gpu_time_fraction: number;
}

/** What one process uses of one device. */
export interface IProcessDevice {
  readonly uuid: string;
  readonly memory_bytes: number;
  readonly launches: number;
  /** GPU time since the process attached; absent where nobody measures it. */
  readonly gpu_time_seconds?: number;
  /** Time waited since then; absent likewise. */
  readonly waited_seconds?: number;
  /** Of its launches, those that did not go at once; absent where an older agent does not tell. */
  readonly throttled_launches?: number;
}

/** One process of the user that uses the slice. */
export interface IProcess {
  readonly pid: number;
  readonly name: string;
  readonly devices: readonly IProcessDevice[];
}

/** What one notebook uses of one device; fractions are absent where nobody measures time. */
export interface INotebookDevice extends IProcessDevice {
  readonly gpu_time_fraction?: number;
  readonly waiting_fraction?: number;
  readonly sm_usage?: number;
}

/** What a notebook was given of the slice. */
export interface IPart {
  /** As it was chosen, as `2GiB` or `1/4`; empty for the whole slice. */
  readonly memory: string;
  /** Of each device; 0 for the whole slice. */
  readonly memory_limit_bytes: number;
}

/** How long the server may go on; what is not known is absent. */
export interface ISession {
  /** Until it is stopped, whatever it does. */
  readonly left_seconds?: number;
  /** Until it is stopped if nothing happens. */
  readonly idle_left_seconds?: number;
  readonly gpu_hours_left?: number;
  readonly gpu_hours_limit?: number;
  /** When there are more, Unix seconds. */
  readonly gpu_hours_again_at?: number;
}

/** A Jupyter kernel of this server; without `pids` it does not use the slice. */
export interface INotebook {
  readonly kernel_id: string;
  readonly kernel_name: string;
  readonly execution_state: string;
  /** Of the document, below the server's root; empty when there is none. */
  readonly path: string;
  /** `notebook`, `console`, …; empty likewise. */
  readonly kind: string;
  /** Null where no part can be chosen; absent where an older server cannot. */
  readonly part?: IPart | null;
  readonly pids: readonly number[];
  readonly devices: readonly INotebookDevice[];
}

/** One device's last hour, oldest first; null is not known. All lists have the same length. */
export interface IHistory {
  readonly uuid: string;
  readonly time: readonly number[];
  readonly memory_bytes: readonly (number | null)[];
  readonly gpu_time_fraction: readonly (number | null)[];
  readonly waiting_fraction: readonly (number | null)[];
}

/** Something the agent noticed about the slice. */
export interface IEvent {
  readonly at: number;
  readonly kind: string;
  readonly message: string;
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
  /** Empty unless the state is `ok`. */
  readonly notebooks: readonly INotebook[];
  /** In the first event of a stream only. */
  readonly history?: readonly IHistory[];
  /** Newest last; absent where the agent tells none. */
  readonly events?: readonly IEvent[];
  /** Absent where an older server does not know. */
  readonly session?: ISession;
}

/** Narrow a decoded event; a newer server may send fields we do not know. */
export function isReading(value: unknown): value is IReading {
  const reading = value as Partial<IReading> | null;
  if (
    typeof reading?.state !== 'string' ||
    typeof reading.message !== 'string' ||
    !Number.isFinite(reading.since_at) ||
    !isListOf(reading.notebooks, isNotebook) ||
    !isAbsentOr(reading.history, list => isListOf(list, isHistory)) ||
    !isAbsentOr(reading.events, list => isListOf(list, isEvent)) ||
    !isAbsentOr(reading.session, isSession)
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
    isAmount(device.share) &&
    isAmount(device.ceiling) &&
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
    isAmount(device.launches_per_second) &&
    isAbsentOr(device.gpu_time_fraction, isAmount) &&
    isAbsentOr(device.waiting_fraction, isAmount) &&
    isAbsentOr(device.sm_usage, isAmount) &&
    isAbsentOr(device.gpu_time_seconds, isAmount) &&
    isAbsentOr(device.waited_seconds, isAmount) &&
    isAbsentOr(device.throttled_launches, isAmount) &&
    isAbsentOr(device.gated_seconds, isAmount) &&
    (device.governed === null || isAbsentOr(device.governed, isGoverned)) &&
    isAbsentOr(device.pressure, isPressure) &&
    isAbsentOr(device.guaranteed, isGuaranteed)
  );
}

function isGoverned(value: unknown): value is IGoverned {
  const governed = value as Partial<IGoverned> | null;
  return (
    isAmount(governed?.windows) &&
    isAmount(governed.overruns) &&
    isAmount(governed.violations)
  );
}

function isGuaranteed(value: unknown): value is IGuaranteed {
  const guaranteed = value as Partial<IGuaranteed> | null;
  return (
    isAmount(guaranteed?.least) &&
    isAmount(guaranteed.violations) &&
    typeof guaranteed.raised === 'boolean'
  );
}

function isPressure(value: unknown): value is IPressure {
  const pressure = value as Partial<IPressure> | null;
  return isAmount(pressure?.neighbours) && isAmount(pressure.gpu_time_fraction);
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
    isAmount(device.launches) &&
    isAbsentOr(device.gpu_time_seconds, isAmount) &&
    isAbsentOr(device.waited_seconds, isAmount) &&
    isAbsentOr(device.throttled_launches, isAmount)
  );
}

function isNotebook(value: unknown): value is INotebook {
  const notebook = value as Partial<INotebook> | null;
  return (
    typeof notebook?.kernel_id === 'string' &&
    typeof notebook.kernel_name === 'string' &&
    typeof notebook.execution_state === 'string' &&
    typeof notebook.path === 'string' &&
    typeof notebook.kind === 'string' &&
    (notebook.part === null || isAbsentOr(notebook.part, isPart)) &&
    isListOf(notebook.pids, isAmount) &&
    isListOf(notebook.devices, isNotebookDevice)
  );
}

function isNotebookDevice(value: unknown): value is INotebookDevice {
  const device = value as Partial<INotebookDevice> | null;
  return (
    isProcessDevice(value) &&
    isAbsentOr(device?.gpu_time_fraction, isAmount) &&
    isAbsentOr(device?.waiting_fraction, isAmount) &&
    isAbsentOr(device?.sm_usage, isAmount)
  );
}

function isPart(value: unknown): value is IPart {
  const part = value as Partial<IPart> | null;
  return typeof part?.memory === 'string' && isAmount(part.memory_limit_bytes);
}

function isSession(value: unknown): value is ISession {
  const session = value as Partial<ISession> | null;
  return (
    isAbsentOr(session?.left_seconds, isAmount) &&
    isAbsentOr(session?.idle_left_seconds, isAmount) &&
    isAbsentOr(session?.gpu_hours_left, isAmount) &&
    isAbsentOr(session?.gpu_hours_limit, isAmount) &&
    isAbsentOr(session?.gpu_hours_again_at, isAmount)
  );
}

function isHistory(value: unknown): value is IHistory {
  const history = value as Partial<IHistory> | null;
  const columns = [
    history?.memory_bytes,
    history?.gpu_time_fraction,
    history?.waiting_fraction
  ];
  return (
    typeof history?.uuid === 'string' &&
    isListOf(history.time, isAmount) &&
    columns.every(
      column =>
        isListOf(column, isKnownOrNot) && column.length === history.time?.length
    )
  );
}

function isEvent(value: unknown): value is IEvent {
  const event = value as Partial<IEvent> | null;
  return (
    isAmount(event?.at) &&
    typeof event?.kind === 'string' &&
    typeof event.message === 'string'
  );
}

function isKnownOrNot(value: unknown): value is number | null {
  return value === null || isAmount(value);
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
