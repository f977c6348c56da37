import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Ending, IListener, openStream } from './api';
import { SliceHistory } from './history';
import { ISituation, ISliceModel } from './tokens';
import { IReading } from './wire';

const CONNECTING: ISituation = {
  state: 'connecting',
  message: '',
  since: null,
  slice: null,
  usage: null,
  notebooks: [],
  events: [],
  session: {}
};

const FIRST_RETRY_MS = 2000;
const LONGEST_RETRY_MS = 30000;

/**
 * One stream, however many views watch: open while at least one does and the
 * page is visible, closed otherwise. A broken stream is opened anew, each time
 * after twice the wait.
 */
export class SliceModel implements ISliceModel, IDisposable, IListener {
  constructor() {
    document.addEventListener('visibilitychange', this._update);
    // Not at the end of a wait that began where there was no network.
    window.addEventListener('online', this._update);
  }

  readonly history = new SliceHistory();

  get situation(): ISituation {
    return this._situation;
  }

  get changed(): ISignal<this, ISituation> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  watch(): IDisposable {
    this._watchers += 1;
    this._update();
    return new DisposableDelegate(() => {
      this._watchers -= 1;
      this._update();
    });
  }

  /**
   * Open the stream anew, for somebody else has found that the server does not
   * answer: a proxy on the way may keep the connection of one that has ended.
   */
  readonly doubt = (): void => {
    this._close();
    this._update();
  };

  onReading(reading: IReading): void {
    this._retryMs = FIRST_RETRY_MS;
    if (reading.history) {
      this.history.replace(reading.history);
    } else if (reading.usage) {
      this.history.append(reading.usage);
    }
    this._set({
      state: reading.state,
      message: reading.message,
      since: new Date(reading.since_at * 1000),
      slice: reading.slice,
      usage: reading.usage,
      notebooks: reading.notebooks,
      events: reading.events ?? [],
      session: reading.session ?? {}
    });
  }

  onEnd(ending: Ending): void {
    this._close();
    const since =
      this._situation.state === ending ? this._situation.since : new Date();
    this._set({ ...CONNECTING, state: ending, since });
    this._retry = window.setTimeout(this._update, this._retryMs);
    this._retryMs = Math.min(2 * this._retryMs, LONGEST_RETRY_MS);
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    document.removeEventListener('visibilitychange', this._update);
    window.removeEventListener('online', this._update);
    this._close();
    Signal.clearData(this);
  }

  private readonly _update = (): void => {
    const isWanted = this._watchers > 0 && !document.hidden;
    if (!isWanted || this._isDisposed) {
      this._close();
    } else if (!this._stream) {
      this._close();
      this._stream = openStream(this);
    }
  };

  private _close(): void {
    window.clearTimeout(this._retry);
    this._stream?.dispose();
    this._stream = null;
  }

  private _set(situation: ISituation): void {
    this._situation = situation;
    this._changed.emit(situation);
  }

  private _situation = CONNECTING;
  private _stream: IDisposable | null = null;
  private _retry: number | undefined;
  private _retryMs = FIRST_RETRY_MS;
  private _watchers = 0;
  private _isDisposed = false;
  private readonly _changed = new Signal<this, ISituation>(this);
}
