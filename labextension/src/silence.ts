import { IDisposable } from '@lumino/disposable';

/**
 * A server that has nothing new says so more often than this, also while its
 * agent does not answer; past it the connection is one that nobody told us
 * has ended, as a laptop finds after its sleep.
 */
export const SILENCE_MS = 60_000;
const LISTEN_EVERY_MS = 5_000;

/** Tells when nothing was heard for too long, by the time of day: other clocks may stand still in a sleep. */
export class Silence implements IDisposable {
  /**
   * @param onTooLong - Called once, unless this was disposed before.
   */
  constructor(onTooLong: () => void) {
    this._timer = window.setInterval(() => {
      if (Date.now() - this._heardAt > SILENCE_MS) {
        this.dispose();
        onTooLong();
      }
    }, LISTEN_EVERY_MS);
  }

  /** Know that something came. */
  heard(): void {
    this._heardAt = Date.now();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    window.clearInterval(this._timer);
  }

  private _heardAt = Date.now();
  private _isDisposed = false;
  private readonly _timer: number;
}
