import { Token } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import { ISignal } from '@lumino/signaling';

import { ISlice, IUsage } from './wire';

/**
 * What is known at one moment.
 *
 * `state` is `connecting`, `ok`, a state of the server (`no-slice`,
 * `agent-unreachable`, …) or the way the stream ended (`server-unreachable`,
 * …). `slice` and `usage` are null unless it is `ok`.
 */
export interface ISituation {
  readonly state: string;
  /** The server's own sentence; empty when it sent none. */
  readonly message: string;
  /** Since when the state has been what it is; null while connecting. */
  readonly since: Date | null;
  readonly slice: ISlice | null;
  readonly usage: IUsage | null;
}

/** Holds the user's slice and its use while somebody watches. */
export interface ISliceModel {
  readonly situation: ISituation;
  readonly changed: ISignal<ISliceModel, ISituation>;
  /** Keep the figures fresh until the result is disposed. */
  watch(): IDisposable;
}

/** For extensions that want to show the slice their own way. */
export const ISliceModel = new Token<ISliceModel>(
  '@jupyter-vgpu/labextension:ISliceModel',
  "The user's slice of a GPU and what it uses"
);
