import { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, ICommandPalette } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import * as schema from '../../schema/panel.json';
import { choosePart, IListener, keep, openStream } from '../api';
import plugins from '../index';
import { IPanelOptions, ISliceModel } from '../tokens';
import { IReading } from '../wire';
import { emptyReading, notebook, okReading } from './readings';
import { choose, drawn } from './stage';

jest.mock('../api');
jest.mock('../plot');

const GIB = 2 ** 30;
/* What the tests' names and messages are written in: whatever is Latin, the panel has said. */
const NAME = 'Ω';
const UNITS = /\b([KMGT]?i?B|[KMG])\b/g;

/** Marks each string that goes through it: `⟦Part of ⟧Ω⟦⟧`. What is put in stays outside. */
const marking = {
  ...nullTranslator.load('jupyter_vgpu'),
  __: (text: string, ...values: unknown[]) =>
    `⟦${text.replace(/%(\d+)/g, (_, place) => `⟧${values[place - 1]}⟦`)}⟧`
};
const translator = { load: jest.fn() };

/** The words of a text that did not go through the translator. */
function unmarked(text: string): string[] {
  const left = text
    .replace(/⟦[^⟦⟧]*⟧/g, ' ')
    .replace(UNITS, ' ')
    .replace(/\b(AM|PM|Sun|Mon|Tue|Wed|Thu|Fri|Sat)\b/g, ' ');
  return left.match(/[A-Za-z]{2,}/g) ?? [];
}

/** All that is read of a node: its text, and what a mouse or a screen reader is told. */
function words(node: Element): string[] {
  const attributes = ['title', 'aria-label', 'aria-valuetext', 'placeholder'];
  return [node, ...node.querySelectorAll('*')]
    .flatMap(each => attributes.map(name => each.getAttribute(name) ?? ''))
    .concat(node.textContent ?? '');
}

/** A reading that shows all that can be shown, of two devices. */
function fullReading(): IReading {
  const one = okReading({
    name: NAME,
    memory_used_bytes: 19.5 * GIB,
    gpu_time_fraction: 0.4,
    waiting_fraction: 0.1,
    sm_usage: 0.3,
    gpu_time_seconds: 12,
    waited_seconds: 3,
    throttled_launches: 1200,
    gated_seconds: 2.5,
    governed: { windows: 40, overruns: 2, violations: 7 },
    guaranteed: { least: 0.25, violations: 3, raised: true },
    pressure: { neighbours: 2, gpu_time_fraction: 0.5 }
  });
  const usage = one.usage!;
  const [device] = usage.devices;
  const [granted] = one.slice!.devices;
  const part = { memory: '1/8', memory_limit_bytes: GIB };
  return {
    ...one,
    slice: {
      ...one.slice!,
      profile: NAME,
      devices: [granted, { ...granted, uuid: 'GPU-2' }]
    },
    usage: {
      ...usage,
      devices: [
        device,
        {
          ...device,
          uuid: 'GPU-2',
          memory_used_bytes: 0,
          guaranteed: { least: 0.25, violations: 0, raised: false },
          pressure: { neighbours: 0, gpu_time_fraction: 0 }
        }
      ],
      processes: usage.processes.map(process => ({
        ...process,
        name: NAME,
        devices: process.devices.map(used => ({
          ...used,
          gpu_time_seconds: 1,
          waited_seconds: 0.5,
          throttled_launches: 7
        }))
      })),
      enforced_by: { ...usage.enforced_by, backend: NAME, note: '' }
    },
    notebooks: [
      notebook({
        path: `${NAME}.Ω`,
        kernel_name: NAME,
        part,
        devices: [
          {
            uuid: 'GPU-1',
            memory_bytes: 4 * GIB,
            launches: 1200,
            gpu_time_fraction: 0.3
          }
        ]
      }),
      ...['idle', 'starting', 'restarting', 'dead', 'unknown'].map(state =>
        notebook({
          kernel_id: state,
          kernel_name: NAME,
          path: '',
          execution_state: state,
          pids: [1]
        })
      ),
      notebook({ kernel_id: 'k2', kernel_name: NAME, path: '', pids: [] })
    ],
    events: [{ at: 1_800_000_000, kind: 'usage', message: NAME }],
    session: {
      left_seconds: 500,
      idle_left_seconds: 400,
      gpu_hours_left: 0.5,
      gpu_hours_limit: 20,
      gpu_hours_again_at: 1_800_000_000
    }
  };
}

/** Other ways of saying what a full reading says only one way. */
function otherReadings(): IReading[] {
  const reading = fullReading();
  const usage = reading.usage!;
  const [device] = usage.devices;
  const enforced = (change: object): IReading => ({
    ...reading,
    usage: { ...usage, enforced_by: { ...usage.enforced_by, ...change } }
  });
  const verifiedAgo = (seconds: number): IReading =>
    enforced({ verified_at: usage.time - seconds });
  return [
    { ...reading, history: [] },
    enforced({ verified: false, level: 'whole device' }),
    enforced({ verified_at: null, level: 'cooperative, audited' }),
    verifiedAgo(100),
    verifiedAgo(10_000),
    {
      ...reading,
      usage: { ...usage, processes: [], devices: [device] },
      notebooks: [],
      session: { left_seconds: 5000, gpu_hours_left: 0, gpu_hours_limit: 1 }
    },
    {
      ...reading,
      usage: {
        ...usage,
        devices: [
          {
            ...device,
            uuid: 'GPU-3',
            guaranteed: { least: 0.25, violations: 3, raised: false }
          },
          ...usage.devices,
          { ...device, uuid: 'GPU-4' }
        ]
      }
    }
  ];
}

const STATES = [
  'no-slice',
  'agent-unreachable',
  'unknown-claim',
  'not-authorized',
  'no-driver',
  'some-state'
];

let commands: CommandRegistry;
let shown: Widget[];
let offered: Parameters<ICommandPalette['addItem']>[0][];
const kernel = { dispose: jest.fn(), restart: jest.fn(), reconnect: jest.fn() };

/** The plugins as JupyterLab activates them, with a translator that marks. */
function activate(): ISliceModel {
  const app = {
    commands,
    serviceManager: {
      connectionFailure: new Signal({}),
      kernels: { connectTo: () => kernel }
    },
    shell: {
      add: (widget: Widget) => shown.push(widget),
      activateById: () => undefined,
      widgets: () => [][Symbol.iterator]()
    }
  } as unknown as JupyterFrontEnd;
  const palette = {
    addItem: (item: (typeof offered)[number]) => offered.push(item)
  } as unknown as ICommandPalette;
  const bar = {
    registerStatusItem: (_: string, item: IStatusBar.IItem) =>
      shown.push(item.item!)
  } as unknown as IStatusBar;
  const [model, panel, status] = plugins;
  const slice = model.activate(app) as ISliceModel;
  const options = panel.activate(
    app,
    slice,
    translator,
    palette,
    null,
    null
  ) as IPanelOptions;
  void status.activate(app, slice, options, bar, translator);
  return slice;
}

function listener(): IListener {
  const { calls } = jest.mocked(openStream).mock;
  return calls[calls.length - 1][0];
}

/** Wait for a dialog, take its words, and accept it. */
async function answered(dialog: string): Promise<string[]> {
  const found = document.querySelector(dialog);
  if (!found) {
    await new Promise(resolve => setTimeout(resolve, 5));
    return answered(dialog);
  }
  const read = words(found);
  // The last is the one that says yes, or the only one.
  const buttons = found.querySelectorAll<HTMLElement>(
    '.jp-Dialog-footer button'
  );
  buttons[buttons.length - 1].click();
  while (document.contains(found)) {
    await new Promise(resolve => setTimeout(resolve, 5));
  }
  return read;
}

beforeEach(async () => {
  jest
    .mocked(openStream)
    .mockReset()
    .mockReturnValue({ isDisposed: false, dispose: () => undefined });
  // A dialog's own words are JupyterLab's, and go through this.
  translator.load.mockReset().mockReturnValue(marking);
  Dialog.translator = translator as unknown as ITranslator;
  commands = new CommandRegistry();
  shown = [];
  offered = [];
  activate();
  shown.forEach(widget => Widget.attach(widget, document.body));
  await Promise.all(shown.map(drawn));
});

afterEach(() => {
  shown.forEach(widget => widget.dispose());
  Dialog.translator = nullTranslator;
});

/** What panel and status item say after a reading. */
async function said(reading?: IReading): Promise<string[]> {
  if (reading) {
    listener().onReading(reading);
  }
  await Promise.all(shown.map(drawn));
  return shown.flatMap(widget => [
    ...words(widget.node),
    widget.title.caption,
    widget.title.label
  ]);
}

it('marks what it is given, and finds what was not', () => {
  const text = marking.__('Part of %1, at most %2', 'own words', '5 GiB');

  expect(text).toBe('⟦Part of ⟧own words⟦, at most ⟧5 GiB⟦⟧');
  expect(unmarked(text)).toEqual(['own', 'words']);
});

it('says nothing on the panel and in the status bar that is not translated', async () => {
  const all = await said();
  for (const reading of [fullReading(), ...otherReadings()]) {
    all.push(...(await said(reading)));
  }

  expect(all.join(' ')).toContain('⟦Restart the Jupyter kernel of ⟧Ω');
  expect(all.join(' ')).toContain('⟦ given, ⟧2⟦ overrun⟧');
  expect([...new Set(all.flatMap(unmarked))]).toEqual([]);
});

it.each(STATES)('says all of the state %s translated', async state => {
  const all = await said(emptyReading(state, NAME));

  expect(all.join(' ')).toContain(`${NAME}.`);
  expect(all.flatMap(unmarked).join('-')).toBe(
    // A state that is not known is named as the server does.
    state === 'some-state' ? state : ''
  );
});

it.each([
  'server-unreachable',
  'server-stopped',
  'no-extension',
  'refused',
  'bad-answer'
] as const)('says all of the ending %s translated', async ending => {
  listener().onEnd(ending);
  const all = await said();

  expect(all.join(' ')).toContain('⟧');
  expect(all.flatMap(unmarked)).toEqual([]);
});

it('offers no command whose words are not translated', () => {
  const all = offered.flatMap(({ command, category, args }) => [
    category,
    commands.label(command, args),
    commands.caption(command, args),
    commands.usage(command, args)
  ]);

  expect(offered.length).toBeGreaterThan(4);
  expect(new Set(offered.map(item => item.command))).toEqual(
    new Set(commands.listCommands())
  );
  expect(all.flatMap(unmarked)).toEqual([]);
});

it('has the words of the settings where its own are', () => {
  const { domain } = schema['jupyter.lab.internationalization'];

  expect(translator.load.mock.calls).toEqual([[domain], [domain]]);
});

it('asks for nothing in words that are not translated', async () => {
  // JupyterLab tells the console what it shows as an error.
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  jest.mocked(choosePart).mockRejectedValue(new Error(NAME));
  jest.mocked(keep).mockRejectedValue(new Error(NAME));
  await said(fullReading());
  const [panel] = shown;
  const button = (name: string): HTMLButtonElement =>
    panel.node.querySelector(`button[aria-label^="⟦${name}"]`)!;
  const part = panel.node.querySelector('li select') as HTMLSelectElement;

  const asked: string[] = [];
  const answer = async (): Promise<void> => {
    asked.push(...(await answered('.jp-Dialog')));
  };
  // Restart; then a part, another part, and the whole, each with the server's refusal; then Keep, likewise.
  button('Restart').click();
  await answer();
  for (const memory of ['1/2', 'other', '']) {
    choose(part, memory);
    await answer();
    await answer();
    if (memory === 'other') {
      await answer();
    }
  }
  panel.node
    .querySelector<HTMLElement>('[data-section="session"] button')!
    .click();
  await answer();

  expect(asked.join(' ')).toContain('⟦The server did not do that⟧');
  expect(asked.join(' ')).toContain('⟦Memory, as 2GiB or 1/4:⟧');
  expect(asked.flatMap(unmarked)).toEqual([]);
});
