import { IHistory, IUsage } from './wire';

const HISTORY_SECONDS = 3600;
/* A reading so long after the last, and no longer, is the first since then with
   anything new: what was before lasted until about a second ago. */
const KEPT_BACK_SECONDS = 2;
const GAP_SECONDS = 8;

/** One device over time, oldest first; null is not known. */
export interface ILine {
  readonly time: number[];
  readonly memory: (number | null)[];
  readonly gpuTime: (number | null)[];
  readonly waiting: (number | null)[];
}

/** What the slice used over the last hour, per device. */
export class SliceHistory {
  /** Take the server's history instead of what there is. */
  replace(histories: readonly IHistory[]): void {
    this._lines.clear();
    for (const history of histories) {
      this._lines.set(history.uuid, {
        time: [...history.time],
        memory: [...history.memory_bytes],
        gpuTime: [...history.gpu_time_fraction],
        waiting: [...history.waiting_fraction]
      });
    }
  }

  /** Take one more reading; one that is not newer is left out. */
  append(usage: IUsage): void {
    for (const device of usage.devices) {
      const line = this._line(device.uuid);
      const newest = line.time[line.time.length - 1] ?? 0;
      if (usage.time > newest) {
        const values = [
          device.memory_used_bytes,
          device.gpu_time_fraction ?? null,
          device.waiting_fraction ?? null
        ] as const;
        const before = last(line);
        const elapsed = usage.time - newest;
        if (
          KEPT_BACK_SECONDS < elapsed &&
          elapsed <= GAP_SECONDS &&
          values.some((value, index) => value !== before[index])
        ) {
          push(line, usage.time - 1, before);
        }
        push(line, usage.time, values);
        trim(line, usage.time - HISTORY_SECONDS);
      }
    }
  }

  /** The last `seconds` of a device; empty lists when nothing is known. */
  last(uuid: string, seconds: number): ILine {
    const line = this._lines.get(uuid) ?? empty();
    const from = (line.time[line.time.length - 1] ?? 0) - seconds;
    const first = line.time.findIndex(time => time >= from);
    return first < 0
      ? empty()
      : {
          time: line.time.slice(first),
          memory: line.memory.slice(first),
          gpuTime: line.gpuTime.slice(first),
          waiting: line.waiting.slice(first)
        };
  }

  private _line(uuid: string): ILine {
    const line = this._lines.get(uuid) ?? empty();
    this._lines.set(uuid, line);
    return line;
  }

  private readonly _lines = new Map<string, ILine>();
}

/** The mean of what is known; null when nothing is. */
export function mean(values: readonly (number | null)[]): number | null {
  const known = values.filter((value): value is number => value !== null);
  return known.length > 0
    ? known.reduce((sum, value) => sum + value, 0) / known.length
    : null;
}

/** Memory, GPU time and waiting at one moment. */
type Values = readonly [number | null, number | null, number | null];

function last(line: ILine): Values {
  const index = line.time.length - 1;
  return [
    line.memory[index] ?? null,
    line.gpuTime[index] ?? null,
    line.waiting[index] ?? null
  ];
}

function push(line: ILine, time: number, values: Values): void {
  line.time.push(time);
  line.memory.push(values[0]);
  line.gpuTime.push(values[1]);
  line.waiting.push(values[2]);
}

function empty(): ILine {
  return { time: [], memory: [], gpuTime: [], waiting: [] };
}

function trim(line: ILine, from: number): void {
  let old = 0;
  while (line.time[old] < from) {
    old += 1;
  }
  if (old > 0) {
    line.time.splice(0, old);
    line.memory.splice(0, old);
    line.gpuTime.splice(0, old);
    line.waiting.splice(0, old);
  }
}
