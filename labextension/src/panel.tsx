import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import { IDisposable } from '@lumino/disposable';
import { Message } from '@lumino/messaging';
import * as React from 'react';

import { IActions } from './actions';
import { Details } from './details';
import { DeviceSection, HistorySection } from './device';
import { Enforcement, Events } from './enforcement';
import { sliceIcon } from './icon';
import { Notebooks } from './notebooks';
import { Notices } from './notices';
import { PanelOptions } from './options';
import { SessionSection } from './session';
import { ISliceModel } from './tokens';
import { ISliceDevice } from './wire';

/** The right sidebar's panel; watches the model while it is shown. */
export class SlicePanel extends ReactWidget {
  constructor(
    model: ISliceModel,
    options: PanelOptions,
    actions: IActions,
    trans: TranslationBundle
  ) {
    super();
    this._model = model;
    this._options = options;
    this._actions = actions;
    this._trans = trans;
    this.id = 'jupyter-vgpu-panel';
    this.addClass('jp-VGPUPanel');
    this.title.icon = sliceIcon;
    this.title.caption = trans.__('GPU slice');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('GPU slice'));
    // Scrolls, so the keyboard must be able to get here.
    this.node.tabIndex = 0;
  }

  dispose(): void {
    this._unwatch();
    super.dispose();
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._watching = this._watching ?? this._model.watch();
  }

  protected onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._unwatch();
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    if (this.isVisible) {
      this._watching = this._watching ?? this._model.watch();
    }
  }

  protected onBeforeDetach(message: Message): void {
    this._unwatch();
    super.onBeforeDetach(message);
  }

  protected onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    this.node.focus();
  }

  protected render(): React.JSX.Element {
    return (
      <UseSignal signal={this._options.changed}>
        {() => (
          <UseSignal signal={this._model.changed}>
            {() => (
              <SituationView
                model={this._model}
                options={this._options}
                actions={this._actions}
                trans={this._trans}
              />
            )}
          </UseSignal>
        )}
      </UseSignal>
    );
  }

  private _unwatch(): void {
    this._watching?.dispose();
    this._watching = null;
  }

  private readonly _model: ISliceModel;
  private readonly _options: PanelOptions;
  private readonly _actions: IActions;
  private readonly _trans: TranslationBundle;
  private _watching: IDisposable | null = null;
}

function SituationView(props: {
  model: ISliceModel;
  options: PanelOptions;
  actions: IActions;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { model, options, actions, trans } = props;
  const { situation } = model;
  const { slice, usage, notebooks } = situation;
  const granted = (uuid: string): ISliceDevice | undefined =>
    slice?.devices.find(device => device.uuid === uuid);
  return (
    <>
      <div className="jp-VGPUPanel-header">
        <h2>{trans.__('GPU slice')}</h2>
        {slice && <span className="jp-VGPUPanel-profile">{slice.profile}</span>}
      </div>
      <Notices
        situation={situation}
        warnAtPercent={options.value.warnAtPercent}
        trans={trans}
      />
      {slice && usage && (
        <>
          {usage.devices.map(device => (
            <DeviceSection
              key={device.uuid}
              device={device}
              granted={granted(device.uuid)}
              usage={usage}
              notebooks={notebooks}
              options={options}
              trans={trans}
            />
          ))}
          <Notebooks
            usage={usage}
            notebooks={notebooks}
            actions={actions}
            trans={trans}
          />
          <HistorySection
            usage={usage}
            granted={granted}
            history={model.history}
            options={options}
            trans={trans}
          />
          <Details usage={usage} notebooks={notebooks} trans={trans} />
          <SessionSection
            session={situation.session}
            actions={actions}
            trans={trans}
          />
          <Enforcement usage={usage} trans={trans} />
          <Events events={situation.events} trans={trans} />
        </>
      )}
    </>
  );
}
