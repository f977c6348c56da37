import { nullTranslator } from '@jupyterlab/translation';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { IListener, openStream } from '../api';
import { SliceModel } from '../model';
import { SlicePanel } from '../panel';
import { SliceStatus } from '../status';
import { emptyReading, okReading } from './readings';

jest.mock('../api');

const GIB = 2 ** 30;
const trans = nullTranslator.load('jupyter_vgpu');
const open = jest.mocked(openStream);

let model: SliceModel;
let isStreaming = false;

function listener(): IListener {
  return open.mock.calls[open.mock.calls.length - 1][0];
}

/** Let Lumino and React draw. */
async function drawn(widget: Widget): Promise<void> {
  MessageLoop.flush();
  await (widget as SlicePanel).renderPromise;
  await new Promise(resolve => setTimeout(resolve, 20));
}

beforeEach(() => {
  isStreaming = false;
  open.mockReset().mockImplementation(() => {
    isStreaming = true;
    return {
      isDisposed: false,
      dispose: () => {
        isStreaming = false;
      }
    };
  });
  model = new SliceModel();
});

afterEach(() => {
  model.dispose();
});

describe('SlicePanel', () => {
  let panel: SlicePanel;

  beforeEach(async () => {
    panel = new SlicePanel(model, trans);
    Widget.attach(panel, document.body);
    await drawn(panel);
  });

  afterEach(() => {
    panel.dispose();
  });

  function figure(name: string): string | null | undefined {
    return panel.node.querySelector(`[data-figure="${name}"]`)?.textContent;
  }

  it('shows every figure as text', async () => {
    listener().onReading(okReading());
    await drawn(panel);

    expect(panel.node.textContent).toContain('1/4 GPU');
    expect(panel.node.textContent).toContain('Simulated board');
    expect(figure('memory')).toBe('5.0 GiB of 20.0 GiB');
    expect(figure('overhead')).toBe('512.0 MiB');
    expect(figure('launches')).toBe('1,234');
    expect(figure('launch-rate')).toBe('12.5');
    expect(figure('enforced-by')).toBe('intercept');
    expect(figure('trust-level')).toBe('cooperative');
    expect(figure('note')).toBe('demo, not isolated');
    expect(panel.node.querySelector('tbody')?.textContent).toBe(
      'python3 47114.0 GiB1,200'
    );
  });

  it('gives the meter a value that can be read aloud', async () => {
    listener().onReading(okReading());
    await drawn(panel);

    const meter = panel.node.querySelector('[role="meter"]');
    expect(meter?.getAttribute('aria-valuenow')).toBe('25');
    expect(meter?.getAttribute('aria-valuetext')).toBe('5.0 GiB of 20.0 GiB');
  });

  it('follows the figures', async () => {
    listener().onReading(okReading());
    await drawn(panel);
    listener().onReading(okReading({ memory_used_bytes: 6 * GIB }));
    await drawn(panel);

    expect(figure('memory')).toBe('6.0 GiB of 20.0 GiB');
  });

  it('shows no overhead where none was measured', async () => {
    listener().onReading(okReading({ memory_overhead_bytes: 0 }));
    await drawn(panel);

    expect(figure('overhead')).toBeUndefined();
  });

  it('warns where a screen reader is told of it', async () => {
    listener().onReading(okReading({ memory_used_bytes: 19.5 * GIB }));
    await drawn(panel);

    const live = panel.node.querySelector('[aria-live="polite"]');
    expect(live?.textContent).toContain('512.0 MiB left');
  });

  it('says why there are no figures, and shows none', async () => {
    listener().onReading(okReading());
    await drawn(panel);
    listener().onReading(emptyReading('agent-unreachable', 'Ask the admin.'));
    await drawn(panel);

    expect(panel.node.textContent).toContain('Agent not reachable, since');
    expect(panel.node.textContent).toContain('Ask the admin.');
    expect(panel.node.querySelector('[role="meter"]')).toBeNull();
  });

  it('takes names from the node as text, never as HTML', async () => {
    listener().onReading(okReading({ name: '<img src=x>' }));
    await drawn(panel);

    expect(panel.node.querySelector('img')).toBeNull();
    expect(panel.node.textContent).toContain('<img src=x>');
  });

  it('has a stream only while it is shown', async () => {
    expect(isStreaming).toBe(true);
    panel.hide();
    expect(isStreaming).toBe(false);
    panel.show();
    expect(isStreaming).toBe(true);
    panel.dispose();
    expect(isStreaming).toBe(false);
  });
});

describe('SliceStatus', () => {
  const opened = jest.fn();
  let status: SliceStatus;

  beforeEach(async () => {
    opened.mockReset();
    status = new SliceStatus(model, opened, trans);
    Widget.attach(status, document.body);
    await drawn(status);
  });

  afterEach(() => {
    status.dispose();
  });

  it('shows memory against its limit', async () => {
    listener().onReading(okReading());
    await drawn(status);

    expect(status.node.textContent).toBe('GPU: 5.0 GiB of 20.0 GiB');
  });

  it('is not there without a slice', async () => {
    listener().onReading(emptyReading('no-slice'));
    await drawn(status);

    expect(status.node.textContent).toBe('');
  });

  it('opens the panel', async () => {
    listener().onReading(okReading());
    await drawn(status);
    status.node.querySelector('button')?.click();

    expect(opened).toHaveBeenCalledTimes(1);
  });
});
