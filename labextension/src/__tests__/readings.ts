import { IDeviceUsage, INotebook, IReading } from '../wire';

const GIB = 2 ** 30;

/** What a slice of a simulated board sends; each test changes what it is about. */
export function okReading(device: Partial<IDeviceUsage> = {}): IReading {
  return {
    state: 'ok',
    message: '',
    since_at: 1_800_000_000,
    slice: {
      claim: 'c1',
      profile: '1/4 GPU',
      devices: [
        {
          uuid: 'GPU-1',
          name: 'Simulated A100',
          simulated: true,
          memory_limit_bytes: 20 * GIB,
          share: 0.25,
          ceiling: 1,
          total_bytes: 80 * GIB
        }
      ]
    },
    usage: {
      time: 1_800_000_000,
      devices: [
        {
          uuid: 'GPU-1',
          name: 'Simulated A100',
          memory_used_bytes: 5 * GIB,
          memory_limit_bytes: 20 * GIB,
          memory_overhead_bytes: GIB / 2,
          launches: 1234,
          launches_per_second: 12.5,
          ...device
        }
      ],
      processes: [
        {
          pid: 4711,
          name: 'python3',
          devices: [{ uuid: 'GPU-1', memory_bytes: 4 * GIB, launches: 1200 }]
        },
        {
          pid: 4800,
          name: 'train',
          devices: [{ uuid: 'GPU-1', memory_bytes: GIB / 2, launches: 34 }]
        }
      ],
      enforced_by: {
        backend: 'intercept',
        level: 'cooperative',
        verified: true,
        verified_at: 1_799_999_999,
        isolated: false,
        note: 'demo, not isolated'
      }
    },
    notebooks: [notebook()]
  };
}

/** A notebook that holds 4 GiB. */
export function notebook(change: Partial<INotebook> = {}): INotebook {
  return {
    kernel_id: 'k1',
    kernel_name: 'python3',
    execution_state: 'busy',
    path: 'course/one.ipynb',
    kind: 'notebook',
    pids: [4711],
    devices: [{ uuid: 'GPU-1', memory_bytes: 4 * GIB, launches: 1200 }],
    ...change
  };
}

export function emptyReading(state: string, message = ''): IReading {
  return {
    state,
    message,
    since_at: 1_800_000_000,
    slice: null,
    usage: null,
    notebooks: []
  };
}
