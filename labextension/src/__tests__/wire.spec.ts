import { isReading } from '../wire';
import { emptyReading, notebook, okReading } from './readings';

describe('isReading', () => {
  it('lets figures in', () => {
    expect(isReading(okReading())).toBe(true);
  });

  it('lets a state without figures in', () => {
    expect(isReading(emptyReading('no-slice', 'Choose one.'))).toBe(true);
  });

  it('lets fields of a newer server in', () => {
    expect(isReading({ ...okReading(), busy: 0.5 })).toBe(true);
  });

  it('lets figures in that only some agents have', () => {
    const timed = okReading({
      gpu_time_fraction: 0.5,
      waiting_fraction: 0,
      sm_usage: 0.1,
      pressure: { neighbours: 1, gpu_time_fraction: 0.2 },
      guaranteed: { least: 0.25, violations: 1, raised: false },
      gpu_time_seconds: 1.5,
      waited_seconds: 0,
      throttled_launches: 3,
      gated_seconds: 0.1,
      governed: { windows: 1, overruns: 0, violations: 0 }
    });
    const session = { idle_left_seconds: 5 };
    const history = {
      uuid: 'GPU-1',
      time: [1, 2],
      memory_bytes: [5, null],
      gpu_time_fraction: [null, null],
      waiting_fraction: [0.5, 0]
    };
    const event = { at: 1, kind: 'usage', message: 'Something.' };

    expect(
      isReading({ ...timed, history: [history], events: [event], session })
    ).toBe(true);
  });

  it('lets figures in where nobody governs', () => {
    expect(isReading(okReading({ governed: null }))).toBe(true);
  });

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a text', 'ok'],
    ['an empty object', {}],
    ['figures that are said to be there and are not', emptyReading('ok')],
    ['figures where there should be none', { ...okReading(), state: 'x' }],
    ['a time that is no number', { ...okReading(), since_at: 'noon' }],
    ['no list of notebooks', { ...okReading(), notebooks: undefined }],
    ['a notebook without a name', { ...okReading(), notebooks: [{}] }],
    ['a GPU time that is no number', okReading({ gpu_time_fraction: NaN })],
    ['an SM usage that is no number', okReading({ sm_usage: NaN })],
    ['a pressure of nobody', okReading({ pressure: {} as never })],
    ['a guarantee of nothing', okReading({ guaranteed: {} as never })],
    ['a count of no launches', okReading({ throttled_launches: NaN })],
    ['turns of nobody', okReading({ governed: {} as never })],
    [
      'a session whose time is no number',
      { ...okReading(), session: { left_seconds: 'soon' } }
    ],
    [
      'a part without a size',
      { ...okReading(), notebooks: [notebook({ part: {} as never })] }
    ],
    ['an event without a message', { ...okReading(), events: [{ at: 1 }] }],
    [
      'a history whose lists differ in length',
      {
        ...okReading(),
        history: [
          {
            uuid: 'GPU-1',
            time: [1, 2],
            memory_bytes: [1],
            gpu_time_fraction: [1, 1],
            waiting_fraction: [1, 1]
          }
        ]
      }
    ],
    ['a negative size', okReading({ memory_used_bytes: -1 })],
    ['a size that is not a number', okReading({ memory_limit_bytes: NaN })]
  ])('keeps %s out', (_, value) => {
    expect(isReading(value)).toBe(false);
  });
});
