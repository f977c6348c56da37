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
