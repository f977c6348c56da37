import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import { IDisposable } from '@lumino/disposable';
import { Message } from '@lumino/messaging';
import * as React from 'react';

import { sliceIcon } from './icon';
import { ISituation, ISliceModel } from './tokens';
import { IDeviceUsage, IEnforcedBy, IProcess, ISlice, IUsage } from './wire';
import * as words from './words';

/** The right sidebar's panel; watches the model while it is shown. */
export class SlicePanel extends ReactWidget {
  constructor(model: ISliceModel, trans: TranslationBundle) {
    super();
    this._model = model;
    this._trans = trans;
    this.id = 'jupyter-vgpu-panel';
    this.addClass('jp-VGPUPanel');
    this.title.icon = sliceIcon;
    this.title.caption = trans.__('GPU slice');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('GPU slice'));
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

  protected render(): React.JSX.Element {
    return (
      <UseSignal signal={this._model.changed}>
        {() => (
          <SituationView
            situation={this._model.situation}
            trans={this._trans}
          />
        )}
      </UseSignal>
    );
  }

  private _unwatch(): void {
    this._watching?.dispose();
    this._watching = null;
  }

  private readonly _model: ISliceModel;
  private readonly _trans: TranslationBundle;
  private _watching: IDisposable | null = null;
}

interface ITranslated {
  readonly trans: TranslationBundle;
}

function SituationView(
  props: ITranslated & { situation: ISituation }
): React.JSX.Element {
  const { situation, trans } = props;
  const { slice, usage } = situation;
  return (
    <>
      <header className="jp-VGPUPanel-header">
        <h2>{trans.__('GPU slice')}</h2>
        {slice && <span className="jp-VGPUPanel-profile">{slice.profile}</span>}
      </header>
      <Notices situation={situation} trans={trans} />
      {slice && usage && (
        <>
          {usage.devices.map(device => (
            <Device
              key={device.uuid}
              device={device}
              isSimulated={isSimulated(slice, device)}
              trans={trans}
            />
          ))}
          <Processes usage={usage} trans={trans} />
          <Enforcement by={usage.enforced_by} trans={trans} />
        </>
      )}
    </>
  );
}

/** What a screen reader is told when it changes: states and warnings. */
function Notices(
  props: ITranslated & { situation: ISituation }
): React.JSX.Element {
  const { situation, trans } = props;
  const warnings = (situation.usage?.devices ?? [])
    .map(device => words.warning(device, trans))
    .filter(text => text !== '');
  return (
    <div role="status" aria-live="polite">
      {situation.state !== 'ok' && (
        <div className="jp-VGPUPanel-notice" data-state={situation.state}>
          <strong>{words.heading(situation, trans)}</strong>
          {situation.message && <p>{situation.message}</p>}
        </div>
      )}
      {warnings.map((text, index) => (
        <div key={index} className="jp-VGPUPanel-notice jp-mod-warning">
          {text}
        </div>
      ))}
    </div>
  );
}

function Device(
  props: ITranslated & { device: IDeviceUsage; isSimulated: boolean }
): React.JSX.Element {
  const { device, isSimulated, trans } = props;
  return (
    <section className="jp-VGPUPanel-section" data-device={device.uuid}>
      <h3>{device.name}</h3>
      {isSimulated && (
        <p className="jp-VGPUPanel-dim">
          {trans.__('Simulated board, not a real GPU')}
        </p>
      )}
      <div className="jp-VGPUPanel-row">
        <span>{trans.__('Memory')}</span>
        <span data-figure="memory">{words.memory(device, trans)}</span>
      </div>
      <Meter device={device} trans={trans} />
      <dl>
        {device.memory_overhead_bytes > 0 && (
          <Figure name={trans.__('Overhead')} figure="overhead">
            {words.bytes(device.memory_overhead_bytes)}
          </Figure>
        )}
        <Figure name={trans.__('Launches')} figure="launches">
          {words.count(device.launches)}
        </Figure>
        <Figure name={trans.__('Launches a second')} figure="launch-rate">
          {words.rate(device.launches_per_second)}
        </Figure>
      </dl>
    </section>
  );
}

function Meter(
  props: ITranslated & { device: IDeviceUsage }
): React.JSX.Element {
  const { device, trans } = props;
  const percent = Math.round(words.fullness(device) * 100);
  const isWarning = words.warning(device, trans) !== '';
  return (
    <div
      className={`jp-VGPUMeter${isWarning ? ' jp-mod-warning' : ''}`}
      role="meter"
      aria-label={trans.__('Memory')}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
      aria-valuetext={words.memory(device, trans)}
    >
      <div className="jp-VGPUMeter-fill" style={{ width: `${percent}%` }} />
    </div>
  );
}

function Processes(props: ITranslated & { usage: IUsage }): React.JSX.Element {
  const { usage, trans } = props;
  return (
    <section className="jp-VGPUPanel-section">
      <h3>{trans.__('Your processes')}</h3>
      {usage.processes.length === 0 ? (
        <p className="jp-VGPUPanel-dim">{trans.__('None uses the GPU now.')}</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">{trans.__('Process')}</th>
              <th scope="col">{trans.__('Memory')}</th>
              <th scope="col">{trans.__('Launches')}</th>
            </tr>
          </thead>
          <tbody>
            {usage.processes.map(process => (
              <ProcessRow key={process.pid} process={process} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function ProcessRow(props: { process: IProcess }): React.JSX.Element {
  const { process } = props;
  const held = words.held(process);
  return (
    <tr>
      <th scope="row">
        <span className="jp-VGPUPanel-process" title={process.name}>
          {process.name}
        </span>{' '}
        <span className="jp-VGPUPanel-dim">{process.pid}</span>
      </th>
      <td>{words.bytes(held.memory)}</td>
      <td>{words.count(held.launches)}</td>
    </tr>
  );
}

function Enforcement(
  props: ITranslated & { by: IEnforcedBy }
): React.JSX.Element {
  const { by, trans } = props;
  const caveat = words.caveat(by, trans);
  return (
    <section className="jp-VGPUPanel-section">
      <h3>{trans.__('Enforcement')}</h3>
      <dl>
        <Figure name={trans.__('Enforced by')} figure="enforced-by">
          {by.backend}
        </Figure>
        <Figure name={trans.__('Trust level')} figure="trust-level">
          {by.level}
        </Figure>
        <Figure name={trans.__('Verified')} figure="verified">
          {words.verification(by, trans)}
        </Figure>
      </dl>
      {caveat && (
        <p className="jp-VGPUPanel-dim" data-figure="note">
          {caveat}
        </p>
      )}
    </section>
  );
}

function Figure(
  props: React.PropsWithChildren<{ name: string; figure: string }>
): React.JSX.Element {
  return (
    <div className="jp-VGPUPanel-row">
      <dt>{props.name}</dt>
      <dd data-figure={props.figure}>{props.children}</dd>
    </div>
  );
}

function isSimulated(slice: ISlice, used: IDeviceUsage): boolean {
  return slice.devices.some(
    device => device.uuid === used.uuid && device.simulated
  );
}
