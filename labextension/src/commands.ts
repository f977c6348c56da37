import { ICommandPalette } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';

import { IActions } from './actions';
import { HISTORY_MINUTES, PanelOptions } from './options';
import { ISliceModel } from './tokens';
import * as words from './words';

export namespace CommandIDs {
  export const show = 'jupyter-vgpu:show';
  export const history = 'jupyter-vgpu:history';
  export const restartLargest = 'jupyter-vgpu:restart-largest';
  export const keep = 'jupyter-vgpu:keep';
}

/** What the commands act on. */
export interface ISubjects {
  readonly slice: ISliceModel;
  readonly options: PanelOptions;
  readonly actions: IActions;
  /** Bring the panel to the front. */
  readonly show: () => void;
}

/** Make the commands known, and put them into the palette where there is one. */
export function addCommands(
  commands: CommandRegistry,
  subjects: ISubjects,
  palette: ICommandPalette | null,
  trans: TranslationBundle
): void {
  const { slice, options, actions, show } = subjects;
  const category = trans.__('GPU');
  const none = { type: 'object', properties: {} } as const;

  commands.addCommand(CommandIDs.show, {
    label: trans.__('Show GPU Slice'),
    describedBy: { args: none },
    execute: show
  });
  commands.addCommand(CommandIDs.restartLargest, {
    label: trans.__('Restart the Jupyter Kernel That Holds Most GPU Memory…'),
    describedBy: { args: none },
    isEnabled: () => words.largest(slice.situation.notebooks) !== null,
    execute: async () => {
      const most = words.largest(slice.situation.notebooks);
      if (most) {
        await actions.restart(most);
      }
    }
  });
  commands.addCommand(CommandIDs.keep, {
    label: trans.__('Keep My Server Running'),
    describedBy: { args: none },
    isEnabled: () => slice.situation.session.idle_left_seconds !== undefined,
    execute: () => actions.keep()
  });
  commands.addCommand(CommandIDs.history, {
    label: args =>
      trans.__(
        'Show the Last %1 min of the GPU Slice',
        minutesOf(args.minutes)
      ),
    describedBy: {
      args: {
        type: 'object',
        properties: { minutes: { type: 'integer', minimum: 1, maximum: 60 } },
        required: ['minutes']
      }
    },
    execute: args => {
      options.set({ historyMinutes: minutesOf(args.minutes) });
      show();
    }
  });
  slice.changed.connect(() => {
    commands.notifyCommandChanged(CommandIDs.restartLargest);
    commands.notifyCommandChanged(CommandIDs.keep);
  });

  palette?.addItem({ command: CommandIDs.show, category });
  palette?.addItem({ command: CommandIDs.restartLargest, category });
  palette?.addItem({ command: CommandIDs.keep, category });
  for (const minutes of HISTORY_MINUTES) {
    palette?.addItem({
      command: CommandIDs.history,
      category,
      args: { minutes }
    });
  }
}

function minutesOf(value: unknown): number {
  const minutes = Math.round(Number(value));
  return minutes >= 1 && minutes <= 60 ? minutes : 5;
}
