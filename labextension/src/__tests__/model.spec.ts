import { IListener, openStream } from '../api';
import { SliceModel } from '../model';
import { emptyReading, okReading } from './readings';

jest.mock('../api');

const open = jest.mocked(openStream);

/** How many streams are open now. */
let streams = 0;

/** Whoever listens to the newest stream. */
function listener(): IListener {
  return open.mock.calls[open.mock.calls.length - 1][0];
}

function hidePage(isHidden: boolean): void {
  Object.defineProperty(document, 'hidden', {
    configurable: true,
    value: isHidden
  });
  document.dispatchEvent(new Event('visibilitychange'));
}

describe('SliceModel', () => {
  let model: SliceModel;

  beforeEach(() => {
    jest.useFakeTimers();
    streams = 0;
    open.mockReset().mockImplementation(() => {
      streams += 1;
      let isDisposed = false;
      return {
        get isDisposed() {
          return isDisposed;
        },
        dispose: () => {
          streams -= isDisposed ? 0 : 1;
          isDisposed = true;
        }
      };
    });
    model = new SliceModel();
  });

  afterEach(() => {
    model.dispose();
    hidePage(false);
    jest.useRealTimers();
  });

  it('opens nothing while nobody watches', () => {
    expect(streams).toBe(0);
  });

  it('opens one stream however many watch', () => {
    model.watch();
    model.watch();

    expect(streams).toBe(1);
  });

  it('closes the stream when the last one stops watching', () => {
    const first = model.watch();
    const second = model.watch();

    first.dispose();
    expect(streams).toBe(1);
    second.dispose();
    expect(streams).toBe(0);
  });

  it('counts a watcher that is disposed twice once', () => {
    const first = model.watch();
    model.watch();

    first.dispose();
    first.dispose();

    expect(streams).toBe(1);
  });

  it('opens another stream when the page finds the server gone, if one is wanted', () => {
    model.doubt();
    expect(streams).toBe(0);
    model.watch();
    const first = open.mock.results[0].value;

    model.doubt();

    expect(first.isDisposed).toBe(true);
    expect(streams).toBe(1);
    hidePage(true);
    model.doubt();
    expect(streams).toBe(0);
  });

  it('has no stream while the page is hidden', () => {
    model.watch();

    hidePage(true);
    expect(streams).toBe(0);
    hidePage(false);
    expect(streams).toBe(1);
  });

  it('holds the newest reading and tells of it', () => {
    const told: string[] = [];
    model.changed.connect((_, situation) => told.push(situation.state));
    model.watch();

    listener().onReading(okReading());
    listener().onReading(emptyReading('agent-unreachable', 'Ask the admin.'));

    expect(told).toEqual(['ok', 'agent-unreachable']);
    expect(model.situation.message).toBe('Ask the admin.');
    expect(model.situation.since).toEqual(new Date(1_800_000_000_000));
    expect(model.situation.usage).toBeNull();
  });

  it('begins with the history of the server and goes on by itself', () => {
    model.watch();
    const at = okReading().usage!.time;
    const history = {
      uuid: 'GPU-1',
      time: [at - 1, at],
      memory_bytes: [1, 2],
      gpu_time_fraction: [null, 0.5],
      waiting_fraction: [null, 0]
    };

    listener().onReading({ ...okReading(), history: [history] });
    const next = okReading({ memory_used_bytes: 3, gpu_time_fraction: 0.25 });
    listener().onReading({ ...next, usage: { ...next.usage!, time: at + 1 } });

    expect(model.history.last('GPU-1', 60)).toEqual({
      time: [at - 1, at, at + 1],
      memory: [1, 2, 3],
      gpuTime: [null, 0.5, 0.25],
      waiting: [null, 0, null]
    });
  });

  it('opens a broken stream anew, after ever longer waits', () => {
    model.watch();

    listener().onEnd('server-unreachable');
    expect(streams).toBe(0);
    jest.advanceTimersByTime(2000);
    expect(streams).toBe(1);
    listener().onEnd('server-unreachable');
    jest.advanceTimersByTime(2000);
    expect(streams).toBe(0);
    jest.advanceTimersByTime(2000);
    expect(streams).toBe(1);
  });

  it('tries at once when the network comes back, and opens nothing twice', () => {
    model.watch();
    window.dispatchEvent(new Event('online'));
    expect(open).toHaveBeenCalledTimes(1);

    listener().onEnd('server-unreachable');
    window.dispatchEvent(new Event('online'));
    expect(streams).toBe(1);
    jest.advanceTimersByTime(60000);

    expect(open).toHaveBeenCalledTimes(2);
  });

  it('remembers since when the server is gone', () => {
    model.watch();

    listener().onEnd('server-unreachable');
    const since = model.situation.since;
    jest.advanceTimersByTime(5000);
    listener().onEnd('server-unreachable');

    expect(model.situation.state).toBe('server-unreachable');
    expect(model.situation.since).toBe(since);
  });

  it('tries no more once nobody watches', () => {
    const watching = model.watch();

    listener().onEnd('server-unreachable');
    watching.dispose();
    jest.advanceTimersByTime(60000);

    expect(streams).toBe(0);
    expect(open).toHaveBeenCalledTimes(1);
  });
});
