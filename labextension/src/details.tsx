import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import * as counters from './counters';
import { Figure } from './figure';
import { othersThan } from './notebooks';
import { IDeviceUsage, INotebook, IProcess, IUsage } from './wire';
import * as words from './words';

/** What was held back, of the slice and of each that uses it; nothing where nothing ever was. */
export function Details(props: {
  usage: IUsage;
  notebooks: readonly INotebook[];
  trans: TranslationBundle;
}): React.JSX.Element | null {
  const { usage, notebooks, trans } = props;
  if (!usage.devices.some(counters.wasHeldBack)) {
    return null;
  }
  const using = notebooks.filter(notebook => notebook.pids.length > 0);
  return (
    <section className="jp-VGPUPanel-section" data-section="details">
      <details>
        <summary>{trans.__('Details of GPU time')}</summary>
        {usage.devices.map(device => (
          <Group
            key={device.uuid}
            name={
              usage.devices.length > 1
                ? words.deviceName(device, usage.devices, trans)
                : trans.__('The slice')
            }
          >
            <OfSlice device={device} trans={trans} />
          </Group>
        ))}
        {using.map(notebook => (
          <Group
            key={notebook.kernel_id}
            name={words.notebookName(notebook, trans)}
          >
            <OfHolder
              processes={usage.processes.filter(process =>
                notebook.pids.includes(process.pid)
              )}
              trans={trans}
            />
          </Group>
        ))}
        {othersThan(usage, notebooks).map(process => (
          <Group
            key={process.pid}
            name={`${process.name} ${trans.__('process %1', process.pid)}`}
          >
            <OfHolder processes={[process]} trans={trans} />
          </Group>
        ))}
      </details>
    </section>
  );
}

function Group(
  props: React.PropsWithChildren<{ name: string }>
): React.JSX.Element {
  return (
    <div role="group" aria-label={props.name} className="jp-VGPUPanel-group">
      <p className="jp-VGPUPanel-name" title={props.name}>
        {props.name}
      </p>
      <dl>{props.children}</dl>
    </div>
  );
}

/** All that the slice had of one device since the agent took it up. */
function OfSlice(props: {
  device: IDeviceUsage;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { device, trans } = props;
  const { gpu_time_seconds, waited_seconds, governed } = device;
  return (
    <>
      <Times gpu={gpu_time_seconds} waited={waited_seconds} trans={trans} />
      <Figure
        name={trans.__('Held back')}
        figure="held-back"
        hint={trans.__(
          'Launches that did not go at once, so that others had their turn or the ceiling held'
        )}
      >
        {counters.heldBack(device, trans)}
      </Figure>
      {counters.tookTurns(governed) && (
        <>
          <Figure
            name={trans.__('Windows')}
            figure="windows"
            hint={trans.__(
              'Your turns on the GPU, and those for which others waited longer than your work should have taken'
            )}
          >
            {counters.windows(governed, trans)}
          </Figure>
          <Figure
            name={trans.__('Below the share')}
            figure="below-share"
            hint={trans.__(
              'Time in which your programs always wanted your share and had less'
            )}
          >
            {trans.__('%1 s', words.count(governed.violations))}
          </Figure>
        </>
      )}
    </>
  );
}

/** What one notebook or process had, of all devices. */
function OfHolder(props: {
  processes: readonly IProcess[];
  trans: TranslationBundle;
}): React.JSX.Element {
  const { processes, trans } = props;
  const had = counters.countersOf(processes);
  return (
    <>
      <Times gpu={had.gpuSeconds} waited={had.waitedSeconds} trans={trans} />
      <Figure name={trans.__('Held back')} figure="holder-held-back">
        {counters.heldBackOf(had, trans)}
      </Figure>
    </>
  );
}

function Times(props: {
  gpu: number | null | undefined;
  waited: number | null | undefined;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { gpu, waited, trans } = props;
  return (
    <>
      {typeof gpu === 'number' && (
        <Figure name={trans.__('GPU time')} figure="gpu-seconds">
          {counters.seconds(gpu, trans)}
        </Figure>
      )}
      {typeof waited === 'number' && (
        <Figure name={trans.__('Waited')} figure="waited-seconds">
          {counters.seconds(waited, trans)}
        </Figure>
      )}
    </>
  );
}
