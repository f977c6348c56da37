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
      <UseSignal signal={this._options.changed}>
        {() => (
          <UseSignal signal={this._model.changed}>
            {() => this._item()}
          </UseSignal>
        )}
      </UseSignal>
    );
  }

  private _item(): React.JSX.Element | null {
    const { situation } = this._model;
    const { usage } = situation;
    const trans = this._trans;
    const warnAt = this._options.value.warnAtPercent;
    if (usage !== null) {
      return this._button(
        words.shortOfAll(usage.devices, trans),
        trans.__('Memory and GPU time of your slice; show more'),
        usage.devices.some(device => words.isTight(device, warnAt))
      );
    }
    return words.isLost(situation.state)
      ? this._button(
          trans.__('GPU: %1', words.stateName(situation.state, trans)),
          words.heading(situation, trans),
          true
        )
      : null;
  }

  private _button(
    text: string,
    title: string,
    isWarning: boolean
  ): React.JSX.Element {
    return (
      <button
        type="button"
        className={`jp-VGPUStatus-button${isWarning ? ' jp-mod-warning' : ''}`}
        title={title}
        onClick={this._open}
      >
        {text}
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
