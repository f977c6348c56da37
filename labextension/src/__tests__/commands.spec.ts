import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';

import { IActions } from '../actions';
import { IListener, openStream } from '../api';
import { addCommands, CommandIDs } from '../commands';
import { SliceModel } from '../model';
import { PanelOptions } from '../options';
import { notebook, okReading } from './readings';

jest.mock('../api');

const trans = nullTranslator.load('jupyter_vgpu');
const show = jest.fn();

let commands: CommandRegistry;
let slice: SliceModel;
let options: PanelOptions;
let actions: jest.Mocked<IActions>;

beforeEach(() => {
  show.mockReset();
  jest
    .mocked(openStream)
    .mockReset()
    .mockReturnValue({ isDisposed: false, dispose: () => undefined });
  commands = new CommandRegistry();
  slice = new SliceModel();
  options = new PanelOptions();
  actions = {
    interrupt: jest.fn(),
    restart: jest.fn(),
    choosePart: jest.fn(),
    keep: jest.fn()
  };
  addCommands(commands, { slice, options, actions, show }, null, trans);
});

afterEach(() => {
  slice.dispose();
});

it('restarts the Jupyter kernel that holds most', async () => {
  const more = notebook({
    kernel_id: 'k2',
    devices: [{ uuid: 'GPU-1', memory_bytes: 2 ** 40, launches: 1 }]
  });
  slice.watch();
  const listener: IListener = jest.mocked(openStream).mock.calls[0][0];
  expect(commands.isEnabled(CommandIDs.restartLargest)).toBe(false);

  listener.onReading({ ...okReading(), notebooks: [notebook(), more] });
  await commands.execute(CommandIDs.restartLargest);

  expect(commands.isEnabled(CommandIDs.restartLargest)).toBe(true);
  expect(actions.restart).toHaveBeenCalledWith(more);
});

it.each([
  [15, 15],
  [0, 5],
  ['many', 5],
  [61, 5]
])('shows the last %s min as %d', async (minutes, shown) => {
  await commands.execute(CommandIDs.history, { minutes });

  expect(options.value.historyMinutes).toBe(shown);
  expect(show).toHaveBeenCalledTimes(1);
});

it('keeps the server only where somebody would stop it', async () => {
  slice.watch();
  const listener: IListener = jest.mocked(openStream).mock.calls[0][0];
  listener.onReading(okReading());
  expect(commands.isEnabled(CommandIDs.keep)).toBe(false);

  listener.onReading({ ...okReading(), session: { idle_left_seconds: 5 } });
  await commands.execute(CommandIDs.keep);

  expect(commands.isEnabled(CommandIDs.keep)).toBe(true);
  expect(actions.keep).toHaveBeenCalledTimes(1);
});
