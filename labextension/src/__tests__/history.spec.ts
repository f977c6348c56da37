import { mean, SliceHistory } from '../history';
import { IUsage } from '../wire';
import { okReading } from './readings';

function usage(time: number, memory = 0): IUsage {
  return { ...okReading({ memory_used_bytes: memory }).usage!, time };
}

describe('SliceHistory', () => {
  it('is empty for a device that it does not know', () => {
    expect(new SliceHistory().last('GPU-2', 60).time).toEqual([]);
  });

  it('gives as much of the past as is asked for', () => {
    const history = new SliceHistory();
    [1000, 1050, 1100, 1110].forEach(time => history.append(usage(time)));

    expect(history.last('GPU-1', 60).time).toEqual([1050, 1100, 1110]);
  });

  it('leaves out what is not newer', () => {
    const history = new SliceHistory();
    history.append(usage(1000, 1));
    history.append(usage(1000, 2));

    expect(history.last('GPU-1', 60).memory).toEqual([1]);
  });

  it('draws a step where nothing was told until something changed', () => {
    const history = new SliceHistory();
    history.append(usage(1000, 5));
    history.append(usage(1005, 5));
    history.append(usage(1009, 7));
    history.append(usage(1010, 8));

    const { time, memory } = history.last('GPU-1', 60);
    expect(time).toEqual([1000, 1005, 1008, 1009, 1010]);
    expect(memory).toEqual([5, 5, 5, 7, 8]);
  });

  it('keeps no more than an hour', () => {
    const history = new SliceHistory();
    history.append(usage(1000));
    history.append(usage(4000));
    history.append(usage(4700));

    expect(history.last('GPU-1', 1e6).time).toEqual([4000, 4700]);
  });
});

describe('mean', () => {
  it('is of what is known', () => {
    expect(mean([null, 0.5, 1])).toBe(0.75);
  });

  it('is not known of nothing', () => {
    expect(mean([null])).toBeNull();
  });
});
