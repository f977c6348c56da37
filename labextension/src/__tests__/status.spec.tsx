import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { SliceStatus } from '../status';
import { emptyReading, okReading } from './readings';
import { Stage, drawn, listener } from './stage';

jest.mock('../api');
jest.mock('../plot');

const trans = nullTranslator.load('jupyter_vgpu');
const stage = new Stage();

describe('SliceStatus', () => {
  const opened = jest.fn();
  let status: SliceStatus;

  beforeEach(async () => {
    opened.mockReset();
    status = new SliceStatus(stage.model, stage.options, opened, trans);
    Widget.attach(status, document.body);
    await drawn(status);
  });

  afterEach(() => {
    status.dispose();
  });

  it('shows memory against its limit', async () => {
    listener().onReading(okReading());
    await drawn(status);

    expect(status.node.textContent).toBe('GPU: 5.0/20.0 GiB');
  });

  it('shows GPU time where it is measured', async () => {
    listener().onReading(okReading({ gpu_time_fraction: 0.43 }));
    await drawn(status);

    expect(status.node.textContent).toBe('GPU: 5.0/20.0 GiB 43 %');
  });

  it('tells two devices one by one, and more of them together', async () => {
    const reading = okReading({ gpu_time_fraction: 0.4 });
    const [device] = reading.usage!.devices;
    const withDevices = (...devices: (typeof device)[]) => ({
      ...reading,
      usage: { ...reading.usage!, devices }
    });
    const idle = { ...device, uuid: 'GPU-2', gpu_time_fraction: 0.1 };
    listener().onReading(withDevices(device, idle));
    await drawn(status);
    expect(status.node.textContent).toBe(
      'GPU: 5.0/20.0 GiB 40 % · 5.0/20.0 GiB 10 %'
    );

    const full = { ...idle, uuid: 'GPU-3', memory_used_bytes: 20 * 2 ** 30 };
    listener().onReading(withDevices(device, idle, full));
    await drawn(status);

    expect(status.node.textContent).toBe('3 GPUs: 30.0/60.0 GiB 20 %');
    // One that is full is warned of all the same.
    expect(status.node.querySelector('.jp-mod-warning')).not.toBeNull();
  });

  it('is not there without a slice', async () => {
    listener().onReading(emptyReading('no-slice'));
    await drawn(status);

    expect(status.node.textContent).toBe('');
  });

  it('says that the figures are lost where there is a slice, and follows again', async () => {
    listener().onReading(emptyReading('agent-unreachable', 'nobody answers'));
    await drawn(status);

    const button = status.node.querySelector('button')!;
    expect(button.textContent).toBe('GPU: Agent not reachable');
    expect(button.title).toContain('Agent not reachable, since');
    listener().onReading(okReading());
    await drawn(status);
    expect(status.node.textContent).toBe('GPU: 5.0/20.0 GiB');
  });

  it('warns from when on the user wants it, at once', async () => {
    listener().onReading(okReading({ memory_used_bytes: 12 * 2 ** 30 }));
    await drawn(status);
    const isWarning = () =>
      status.node.querySelector('button')!.classList.contains('jp-mod-warning');
    expect(isWarning()).toBe(false);

    stage.options.set({ warnAtPercent: 50 });
    await drawn(status);

    expect(isWarning()).toBe(true);
    stage.options.set({ warnAtPercent: 90 });
  });

  it('opens the panel', async () => {
    listener().onReading(okReading());
    await drawn(status);
    status.node.querySelector('button')?.click();

    expect(opened).toHaveBeenCalledTimes(1);
  });
});
