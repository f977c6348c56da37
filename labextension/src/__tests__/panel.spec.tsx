import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { IActions } from '../actions';
import { SlicePanel } from '../panel';
import { emptyReading, notebook, okReading } from './readings';
import { Stage, choose, drawn, listener } from './stage';

jest.mock('../api');
jest.mock('../plot');

const GIB = 2 ** 30;
const trans = nullTranslator.load('jupyter_vgpu');
const stage = new Stage();

describe('SlicePanel', () => {
  let panel: SlicePanel;
  let actions: jest.Mocked<IActions>;

  beforeEach(async () => {
    actions = {
      interrupt: jest.fn(),
      restart: jest.fn(),
      choosePart: jest.fn(),
      keep: jest.fn()
    };
    panel = new SlicePanel(stage.model, stage.options, actions, trans);
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
    expect(figure('note')).toBe('Demo, not isolated.');
    expect(figure('verified')).toBe('1 s ago');
    expect(panel.node.querySelector('[data-notebook]')?.textContent).toContain(
      'one.ipynb4.0 GiB'
    );
    expect(panel.node.querySelector('[data-process]')?.textContent).toBe(
      'train process 4800512.0 MiB'
    );
  });

  it('tells devices of the same kind apart, to a screen reader too', async () => {
    const one = okReading();
    const usage = one.usage!;
    const second = { ...usage.devices[0], uuid: 'GPU-2' };
    listener().onReading({
      ...one,
      usage: { ...usage, devices: [...usage.devices, second] }
    });
    await drawn(panel);

    const texts = (selector: string) =>
      [...panel.node.querySelectorAll(selector)].map(
        node => node.getAttribute('aria-label') ?? node.textContent
      );
    const both = ['GPU 0: Simulated A100', 'GPU 1: Simulated A100'];
    expect(texts('[data-device] h3')).toEqual(both);
    expect(texts('[role="meter"]')).toEqual(
      both.map(name => `Memory of ${name}`)
    );
    expect(texts('[role="group"]')).toEqual(both);
    // How far back is one choice for all.
    expect(texts('select[aria-label^="History"]')).toHaveLength(1);
  });

  it('gives the meter a value that can be read aloud', async () => {
    listener().onReading(okReading());
    await drawn(panel);

    const meter = panel.node.querySelector('[role="meter"]');
    expect(meter?.getAttribute('aria-valuenow')).toBe('25');
    expect(meter?.getAttribute('aria-valuetext')).toBe('5.0 GiB of 20.0 GiB');
  });

  it('gives each holder its part of the meter', async () => {
    listener().onReading(okReading());
    await drawn(panel);

    const parts = [...panel.node.querySelectorAll<HTMLElement>('[data-part]')];
    expect(
      parts.map(part => [part.dataset.part, part.style.width, part.title])
    ).toEqual([
      ['k1', '20%', 'one.ipynb: 4.0 GiB'],
      ['other', '2.5%', 'Other processes: 512.0 MiB'],
      ['overhead', '2.5%', 'Overhead: 512.0 MiB']
    ]);
  });

  it('draws GPU time only where it is measured', async () => {
    listener().onReading(okReading());
    await drawn(panel);
    expect(figure('gpu-time')).toBeUndefined();

    const timed = okReading({ gpu_time_fraction: 0.43, waiting_fraction: 0.1 });
    const { usage } = timed;
    listener().onReading({
      ...timed,
      usage: { ...usage!, time: usage!.time + 1 }
    });
    await drawn(panel);

    expect(figure('gpu-time')).toBe('43 %');
    expect(figure('waiting')).toBe('10 %');
    expect(figure('share')).toBe('25 %');
    expect(figure('ceiling')).toBe('100 %');
    const chart = panel.node.querySelector('[role="img"]');
    expect(chart?.getAttribute('aria-label')).toBe(
      'GPU time over the last 5 min: 43 % now, 43 % on average; share 25 %, ceiling 100 %; 10 % waiting now'
    );
  });

  it('shows SM usage, what neighbours do and what is guaranteed, where that is known', async () => {
    listener().onReading(okReading());
    await drawn(panel);
    expect(figure('sm-usage')).toBeUndefined();
    expect(figure('pressure')).toBeUndefined();
    expect(figure('guaranteed')).toBeUndefined();

    listener().onReading(
      okReading({
        sm_usage: 0.31,
        pressure: { neighbours: 3, gpu_time_fraction: 0.6 },
        guaranteed: { least: 0.25, violations: 4, raised: true }
      })
    );
    await drawn(panel);

    expect(figure('sm-usage')).toBe('31 %');
    expect(figure('pressure')).toBe('3 at work, 60 %');
    expect(figure('guaranteed')).toBe('25 %, missed in 4 s, and now');
  });

  it('says how long the server may go on, and keeps it', async () => {
    listener().onReading(okReading());
    await drawn(panel);
    expect(panel.node.querySelector('[data-section="session"]')).toBeNull();

    listener().onReading({
      ...okReading(),
      session: {
        left_seconds: 3 * 3600,
        idle_left_seconds: 480,
        gpu_hours_left: 2.5,
        gpu_hours_limit: 20
      }
    });
    await drawn(panel);

    expect(figure('session-left')).toBe('3 h 00 min');
    expect(figure('idle-left')).toBe('8 min');
    expect(figure('gpu-hours-left')).toBe('2.5 of 20');
    const live = panel.node.querySelector('[aria-live="polite"]');
    expect(live?.textContent).toContain('stopped in 8 min unless you go on');
    expect(live?.textContent).not.toContain('as its profile says');
    expect(live?.textContent).not.toContain('GPU-hours');
    panel.node
      .querySelector<HTMLButtonElement>('[data-section="session"] button')
      ?.click();
    expect(actions.keep).toHaveBeenCalledTimes(1);
  });

  it.each([
    [0.42, 'Your GPU-hours are nearly used up: 0.42 of 20 left.'],
    [0, 'Your GPU-hours are used up: 0 of 20 left.']
  ])('warns when %d hours of the quota are left', async (left, warning) => {
    const session = { gpu_hours_left: left, gpu_hours_limit: 20 };
    listener().onReading({ ...okReading(), session });
    await drawn(panel);

    const live = panel.node.querySelector('[aria-live="polite"]');
    expect(live?.textContent).toContain(`${warning} This server goes on`);
  });

  it('offers parts of the slice, also to a notebook that does not use it', async () => {
    const some = notebook({ part: { memory: '', memory_limit_bytes: 0 } });
    const resting = notebook({
      kernel_id: 'k2',
      path: 'two.ipynb',
      pids: [],
      part: { memory: '2GiB', memory_limit_bytes: 2 * GIB }
    });
    listener().onReading({ ...okReading(), notebooks: [some, resting] });
    await drawn(panel);

    const [first, second] = [
      ...panel.node.querySelectorAll<HTMLSelectElement>('li select')
    ];
    expect(first.getAttribute('aria-label')).toBe(
      'Part of the slice for one.ipynb'
    );
    expect(first.selectedOptions[0].text).toBe('whole slice');
    expect(second.selectedOptions[0].text).toBe('2GiB (2.0 GiB)');
    const row = panel.node.querySelector('[data-notebook="two.ipynb"]');
    expect(row?.textContent).toContain('does not use the GPU');
    expect(row?.querySelector('button')).toBeNull();

    choose(first, '1/2');
    choose(second, 'other');
    choose(second, '');

    expect(actions.choosePart.mock.calls).toEqual([
      [some, '1/2'],
      [resting, undefined],
      [resting, '']
    ]);
  });

  it('offers no part where none can be had', async () => {
    listener().onReading({
      ...okReading(),
      notebooks: [notebook({ part: null }), notebook({ kernel_id: 'k2' })]
    });
    await drawn(panel);

    expect(panel.node.querySelector('li select')).toBeNull();
  });

  it('reaches back as far as is chosen', async () => {
    listener().onReading(okReading());
    await drawn(panel);
    stage.options.set({ historyMinutes: 60 });
    await drawn(panel);

    expect(panel.node.querySelector('select')?.value).toBe('60');
    expect(
      panel.node.querySelector('[role="img"]')?.getAttribute('aria-label')
    ).toContain('over the last 60 min');
  });

  it('interrupts what is busy, and restarts', async () => {
    listener().onReading(okReading());
    await drawn(panel);
    const [interrupt, restart] = [
      ...panel.node.querySelectorAll<HTMLButtonElement>('button')
    ];
    interrupt.click();
    restart.click();

    expect(interrupt.getAttribute('aria-label')).toBe('Interrupt one.ipynb');
    expect(actions.interrupt).toHaveBeenCalledWith(notebook());
    expect(actions.restart).toHaveBeenCalledWith(notebook());
  });

  it('interrupts nothing that is idle', async () => {
    listener().onReading({
      ...okReading(),
      notebooks: [notebook({ execution_state: 'idle' })]
    });
    await drawn(panel);
    panel.node.querySelector('button')?.click();

    expect(actions.interrupt).not.toHaveBeenCalled();
  });

  it('shows what the agent noticed, newest first', async () => {
    listener().onReading({
      ...okReading(),
      events: [
        { at: 1_800_000_000, kind: 'usage', message: 'First.' },
        { at: 1_800_000_060, kind: 'bypass', message: 'Second.' }
      ]
    });
    await drawn(panel);

    const told = [...panel.node.querySelectorAll('.jp-VGPUPanel-events li')];
    expect(
      told.map(item => item.textContent?.split(/\d\d? ?[AP]?M? /).pop())
    ).toEqual(['Second.', 'First.']);
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
    expect(live?.textContent).toContain('one.ipynb holds most');
    expect(live?.textContent).toContain('%vgpu free');
  });

  it('says why there are no figures, and shows none', async () => {
    listener().onReading(okReading());
    await drawn(panel);
    listener().onReading(emptyReading('agent-unreachable', 'Ask the admin.'));
    await drawn(panel);

    expect(panel.node.textContent).toContain('Agent not reachable, since');
    const said = [...panel.node.querySelectorAll('[role="status"] p')];
    expect(said.map(node => node.textContent)).toEqual([
      'Ask the admin.',
      expect.stringContaining('Programs that use the GPU go on')
    ]);
    expect(panel.node.querySelector('[role="meter"]')).toBeNull();
  });

  it('shows commands in a message as code', async () => {
    const message = 'Start it with `jupyter vgpu run`, or a ` alone.';
    listener().onReading(emptyReading('no-slice', message));
    await drawn(panel);

    const notice = panel.node.querySelector('[role="status"] p')!;
    expect(notice.textContent).toBe(
      'Start it with jupyter vgpu run, or a ` alone.'
    );
    expect(
      [...notice.querySelectorAll('code')].map(code => code.textContent)
    ).toEqual(['jupyter vgpu run']);
  });

  it('takes names from the node as text, never as HTML', async () => {
    listener().onReading(okReading({ name: '<img src=x>' }));
    await drawn(panel);

    expect(panel.node.querySelector('img')).toBeNull();
    expect(panel.node.textContent).toContain('<img src=x>');
  });

  it('has a stream only while it is shown', async () => {
    expect(stage.isStreaming).toBe(true);
    panel.hide();
    expect(stage.isStreaming).toBe(false);
    panel.show();
    expect(stage.isStreaming).toBe(true);
    panel.dispose();
    expect(stage.isStreaming).toBe(false);
  });
});
