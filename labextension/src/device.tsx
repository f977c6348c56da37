import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { GpuTimeChart, MemoryChart } from './chart';
import { Figure } from './figure';
import { SliceHistory } from './history';
import { othersThan, partClass } from './notebooks';
import { HISTORY_MINUTES, PanelOptions } from './options';
import { IDeviceUsage, INotebook, ISliceDevice, IUsage } from './wire';
import * as words from './words';

interface IDeviceProps {
  readonly device: IDeviceUsage;
  readonly notebooks: readonly INotebook[];
  readonly usage: IUsage;
  readonly options: PanelOptions;
  readonly trans: TranslationBundle;
}

/** One device of the slice: what is used of it now. */
export function DeviceSection(
  props: IDeviceProps & { granted: ISliceDevice | undefined }
): React.JSX.Element {
  const { device, granted, usage, trans } = props;
  return (
    <section className="jp-VGPUPanel-section" data-device={device.uuid}>
      <h3>{words.deviceName(device, usage.devices, trans)}</h3>
      {granted?.simulated && (
        <p className="jp-VGPUPanel-dim">
          {trans.__('Simulated board, not a real GPU')}
        </p>
      )}
      <div className="jp-VGPUPanel-row">
        <span>{trans.__('Memory')}</span>
        <span data-figure="memory">{words.memory(device, trans)}</span>
      </div>
      <Meter {...props} />
      <dl>
        {device.memory_overhead_bytes > 0 && (
          <Figure name={trans.__('Overhead')} figure="overhead">
            {words.bytes(device.memory_overhead_bytes)}
          </Figure>
        )}
        {device.sm_usage !== undefined && (
          <Figure
            name={trans.__('SM usage')}
            figure="sm-usage"
            hint={trans.__(
              'GPU time × the part of the multiprocessors that your launches could fill'
            )}
          >
            {words.percent(device.sm_usage)}
          </Figure>
        )}
        {device.guaranteed && (
          <Figure
            name={trans.__('Guaranteed')}
            figure="guaranteed"
            hint={trans.__(
              "Least part of the GPU's time in each second in which you want that much"
            )}
          >
            {words.guaranteed(device.guaranteed, trans)}
          </Figure>
        )}
        {device.pressure && (
          <Figure
            name={trans.__('Neighbours')}
            figure="pressure"
            hint={trans.__(
              'Other slices of this GPU that worked within the last second, and the GPU time that they had together'
            )}
          >
            {words.pressure(device.pressure, trans)}
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

/** All devices over time, and how far back. */
export function HistorySection(props: {
  usage: IUsage;
  granted: (uuid: string) => ISliceDevice | undefined;
  history: SliceHistory;
  options: PanelOptions;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { usage, granted, history, options, trans } = props;
  return (
    <section className="jp-VGPUPanel-section">
      <Range options={options} trans={trans} />
      {usage.devices.map(device => (
        <DeviceHistory
          key={device.uuid}
          device={device}
          name={
            usage.devices.length > 1
              ? words.deviceName(device, usage.devices, trans)
              : ''
          }
          granted={granted(device.uuid)}
          history={history}
          seconds={options.value.historyMinutes * 60}
          trans={trans}
        />
      ))}
    </section>
  );
}

/** One device over time; named where there are several. */
function DeviceHistory(props: {
  device: IDeviceUsage;
  name: string;
  granted: ISliceDevice | undefined;
  history: SliceHistory;
  seconds: number;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { device, name, granted, history, seconds, trans } = props;
  const line = history.last(device.uuid, seconds);
  const isTimed = device.gpu_time_fraction !== undefined;
  return (
    <div
      className="jp-VGPUPanel-past"
      role={name ? 'group' : undefined}
      aria-label={name || undefined}
    >
      {name && <p>{name}</p>}
      {granted && isTimed && (
        <>
          <h4>{trans.__('GPU time')}</h4>
          <GpuTimeChart
            device={device}
            granted={granted}
            line={line}
            seconds={seconds}
            trans={trans}
          />
        </>
      )}
      <h4>{trans.__('Memory')}</h4>
      <MemoryChart
        device={device}
        line={line}
        seconds={seconds}
        trans={trans}
      />
    </div>
  );
}

/** Memory against its limit, in parts: each notebook, other processes, overhead. */
function Meter(props: IDeviceProps): React.JSX.Element {
  const { device, notebooks, usage, options, trans } = props;
  const limit = device.memory_limit_bytes;
  const percent = Math.round(words.fullness(device) * 100);
  const isTight = words.isTight(device, options.value.warnAtPercent);
  const others = othersThan(usage, notebooks).reduce(
    (sum, process) => sum + words.held(process, device.uuid).memory,
    0
  );
  const parts = [
    ...notebooks.map((notebook, index) => ({
      key: notebook.kernel_id,
      name: words.notebookName(notebook, trans),
      className: partClass(index),
      amount: words.held(notebook, device.uuid).memory
    })),
    {
      key: 'other',
      name: trans.__('Other processes'),
      className: 'jp-mod-other',
      amount: others
    },
    {
      key: 'overhead',
      name: trans.__('Overhead'),
      className: 'jp-mod-overhead',
      amount: device.memory_overhead_bytes
    }
  ].filter(part => part.amount > 0);
  return (
    <div
      className={`jp-VGPUMeter${isTight ? ' jp-mod-warning' : ''}`}
      role="meter"
      aria-label={
        usage.devices.length > 1
          ? trans.__(
              'Memory of %1',
              words.deviceName(device, usage.devices, trans)
            )
          : trans.__('Memory')
      }
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
      aria-valuetext={words.memory(device, trans)}
    >
      {parts.map(part => (
        <div
          key={part.key}
          className={`jp-VGPUMeter-part ${part.className}`}
          data-part={part.key}
          style={{ width: `${limit > 0 ? (100 * part.amount) / limit : 0}%` }}
          title={`${part.name}: ${words.bytes(part.amount)}`}
        />
      ))}
    </div>
  );
}

function Range(props: {
  options: PanelOptions;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { options, trans } = props;
  const chosen = options.value.historyMinutes;
  const offered = [...new Set([...HISTORY_MINUTES, chosen])].sort(
    (a, b) => a - b
  );
  return (
    <div className="jp-VGPUPanel-row jp-VGPUPanel-range">
      <h3>{trans.__('History')}</h3>
      <select
        aria-label={trans.__('History of how long')}
        value={chosen}
        onChange={event =>
          options.set({ historyMinutes: Number(event.target.value) })
        }
      >
        {offered.map(minutes => (
          <option key={minutes} value={minutes}>
            {words.duration(minutes * 60, trans)}
          </option>
        ))}
      </select>
    </div>
  );
}
