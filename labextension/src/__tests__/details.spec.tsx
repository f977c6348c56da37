import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { IActions } from '../actions';
import { SlicePanel } from '../panel';
import { IDeviceUsage, IProcessDevice, IReading } from '../wire';
import { notebook, okReading } from './readings';
import { Stage, drawn, listener } from './stage';

jest.mock('../api');
jest.mock('../plot');

const trans = nullTranslator.load('jupyter_vgpu');
const stage = new Stage();
const QUIET = { windows: 0, overruns: 0, violations: 0 };
const BUSY: Partial<IDeviceUsage> = {
  gpu_time_seconds: 1234.56,
  waited_seconds: 3.21,
  throttled_launches: 1200,
  gated_seconds: 2.5,
  governed: { windows: 4000, overruns: 2, violations: 7 }
};

/** A reading whose first process, and so the notebook, has these figures. */
function reading(
  device: Partial<IDeviceUsage>,
  figures: Partial<IProcessDevice> = {}
): IReading {
  const one = okReading(device);
  const [first, ...others] = one.usage!.processes;
  const used = first.devices.map(held => ({ ...held, ...figures }));
  return {
    ...one,
    usage: {
      ...one.usage!,
      processes: [{ ...first, devices: used }, ...others]
    }
  };
}

describe('Details', () => {
  let panel: SlicePanel;

  beforeEach(async () => {
    panel = new SlicePanel(
      stage.model,
      stage.options,
      {} as unknown as IActions,
      trans
    );
    Widget.attach(panel, document.body);
    await drawn(panel);
  });

  afterEach(() => {
    panel.dispose();
  });

  async function details(of: IReading): Promise<HTMLDetailsElement | null> {
    listener().onReading(of);
    await drawn(panel);
    return panel.node.querySelector<HTMLDetailsElement>(
      '[data-section="details"] details'
    );
  }

  /** Name of each group, and its figures by what they are called. */
  function groups(): [string | null, Record<string, string | null>][] {
    return [...panel.node.querySelectorAll('details [role="group"]')].map(
      group => [
        group.getAttribute('aria-label'),
        Object.fromEntries(
          [...group.querySelectorAll('dl > div')].map(row => [
            row.querySelector('dt')?.textContent ?? '',
            row.querySelector('dd')!.textContent
          ])
        )
      ]
    );
  }

  it.each<[string, Partial<IDeviceUsage>]>([
    ['an older agent does not tell', {}],
    ['nobody governs', { ...BUSY, throttled_launches: 0, governed: null }],
    ['nothing ever was', { throttled_launches: 0, governed: QUIET }]
  ])('is not there where %s', async (_, device) => {
    expect(await details(reading(device))).toBeNull();
  });

  it('has the figures of the slice, and of each that uses it', async () => {
    const had = {
      gpu_time_seconds: 1.24,
      waited_seconds: 0.5,
      throttled_launches: 1100
    };
    await details(reading(BUSY, had));

    expect(groups()).toEqual([
      [
        'The slice',
        {
          'GPU time': '1,234.6 s',
          Waited: '3.2 s',
          'Held back': '1,200 launches, for 2.5 s',
          Windows: '4,000 given, 2 overrun',
          'Below the share': '7 s'
        }
      ],
      [
        'one.ipynb',
        {
          'GPU time': '1.2 s',
          Waited: '0.5 s',
          'Held back': '1,100 of 1,200 launches'
        }
      ],
      // An older agent does not tell its times.
      ['train process 4800', { 'Held back': '0 of 34 launches' }]
    ]);
  });

  it('says nothing of turns where there were none', async () => {
    await details(reading({ throttled_launches: 3, gated_seconds: 0.04 }));

    expect(groups()[0]).toEqual([
      'The slice',
      { 'Held back': '3 launches, for 0.0 s' }
    ]);
  });

  it('is there where turns were taken and no launch waited', async () => {
    await details(reading({ governed: { ...QUIET, violations: 2 } }));

    expect(groups()[0][1]).toMatchObject({ 'Below the share': '2 s' });
  });

  it('sums what all processes of a notebook had', async () => {
    const one = reading(BUSY, { throttled_launches: 5 });
    await details({ ...one, notebooks: [notebook({ pids: [4711, 4800] })] });

    expect(groups().slice(1)).toEqual([
      ['one.ipynb', { 'Held back': '5 of 1,234 launches' }]
    ]);
  });

  it('leaves out a notebook that does not use the slice', async () => {
    const idle = notebook({ kernel_id: 'k2', path: 'two.ipynb', pids: [] });
    await details({ ...reading(BUSY), notebooks: [notebook(), idle] });

    expect(groups().map(([name]) => name)).not.toContain('two.ipynb');
  });

  it('is closed at first, and stays open over new figures', async () => {
    const before = (await details(reading(BUSY)))!;
    expect(before.open).toBe(false);
    expect(before.querySelector('summary')?.textContent).toBe(
      'Details of GPU time'
    );
    before.open = true;

    const after = await details(reading({ ...BUSY, throttled_launches: 1201 }));

    expect(after).toBe(before);
    expect(after!.open).toBe(true);
    expect(groups()[0][1]['Held back']).toBe('1,201 launches, for 2.5 s');
  });
});
