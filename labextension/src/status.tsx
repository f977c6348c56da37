import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import { IDisposable } from '@lumino/disposable';
import { Message } from '@lumino/messaging';
import * as React from 'react';

import { PanelOptions } from './options';
import { ISliceModel } from './tokens';
import * as words from './words';

/** The status bar's item: memory and GPU time in a few characters; nothing without a slice. */
export class SliceStatus extends ReactWidget {
  /**
   * @param model - What to show.
   * @param options - From when on to warn.
   * @param open - Called when the user wants to see more.
   * @param trans - The user's language.
   */
  constructor(
    model: ISliceModel,
    options: PanelOptions,
    open: () => void,
    trans: TranslationBundle
  ) {
    super();
    this._model = model;
    this._options = options;
    this._open = open;
    this._trans = trans;
    this.addClass('jp-VGPUStatus');
  }

  dispose(): void {
    this._unwatch();
    super.dispose();
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._watching = this._watching ?? this._model.watch();
  }

  protected onBeforeDetach(message: Message): void {
    this._unwatch();
    super.onBeforeDetach(message);
  }

  protected render(): React.JSX.Element {
    return (
      <UseSignal signal={this._model.changed}>{() => this._item()}</UseSignal>
    );
  }

  private _item(): React.JSX.Element | null {
    const { usage } = this._model.situation;
    if (usage === null) {
      return null;
    }
    const trans = this._trans;
    const warnAt = this._options.value.warnAtPercent;
    return (
      <button
        type="button"
        className={`jp-VGPUStatus-button${
          usage.devices.some(device => words.isTight(device, warnAt))
            ? ' jp-mod-warning'
            : ''
        }`}
        title={trans.__('Memory and GPU time of your slice; show more')}
        onClick={this._open}
      >
        {trans.__('GPU: %1', usage.devices.map(words.short).join(' · '))}
      </button>
    );
  }

  private _unwatch(): void {
    this._watching?.dispose();
    this._watching = null;
  }

  private readonly _model: ISliceModel;
  private readonly _options: PanelOptions;
  private readonly _open: () => void;
  private readonly _trans: TranslationBundle;
  private _watching: IDisposable | null = null;
}
