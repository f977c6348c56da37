import { Token } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import { ISignal } from '@lumino/signaling';

import { SliceHistory } from './history';
import { PanelOptions } from './options';
import { IEvent, INotebook, ISession, ISlice, IUsage } from './wire';

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
  readonly notebooks: readonly INotebook[];
  /** What the agent noticed, newest last; empty where it tells nothing. */
  readonly events: readonly IEvent[];
  /** How long the server may go on; empty where nothing is known. */
  readonly session: ISession;
}

/** Holds the user's slice and its use while somebody watches. */
export interface ISliceModel {
  readonly situation: ISituation;
  readonly changed: ISignal<ISliceModel, ISituation>;
  /** Up to an hour, with gaps where nobody watched. */
  readonly history: SliceHistory;
  /** Keep the figures fresh until the result is disposed. */
  watch(): IDisposable;
}

/** For extensions that want to show the slice their own way. */
export const ISliceModel = new Token<ISliceModel>(
  '@jupyter-vgpu/labextension:ISliceModel',
  "The user's slice of a GPU and what it uses"
);

/** What the user chose in the settings, or in the panel. */
export type IPanelOptions = PanelOptions;

/** For the views that follow the user's choices. */
export const IPanelOptions = new Token<IPanelOptions>(
  '@jupyter-vgpu/labextension:IPanelOptions',
  'How the slice is shown: how far back, and from when on to warn'
);
