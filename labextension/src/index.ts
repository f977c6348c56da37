/** What the extension adds: the model, the panel, the status bar's item, commands and settings. */

import {
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { KernelActions } from './actions';
import { addCommands, CommandIDs } from './commands';
import { connectionsOf } from './connections';
import { SliceModel } from './model';
import { followSettings, PanelOptions } from './options';
import { SlicePanel } from './panel';
import { keepFocus } from './focus';
import { SliceStatus } from './status';
import { IPanelOptions, ISliceModel } from './tokens';

const DOMAIN = 'jupyter_vgpu';

const model: JupyterFrontEndPlugin<ISliceModel> = {
  id: '@jupyter-vgpu/labextension:model',
  description: "Holds the user's slice of a GPU and what it uses.",
  autoStart: true,
  provides: ISliceModel,
  activate: (app: JupyterFrontEnd) => {
    const slice = new SliceModel();
    app.serviceManager.connectionFailure.connect(slice.doubt);
    return slice;
  }
};

const panel: JupyterFrontEndPlugin<IPanelOptions> = {
  id: '@jupyter-vgpu/labextension:panel',
  description: "Shows the user's slice of a GPU in the right sidebar.",
  autoStart: true,
  requires: [ISliceModel],
  provides: IPanelOptions,
  optional: [ITranslator, ICommandPalette, ILayoutRestorer, ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    slice: ISliceModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    settings: ISettingRegistry | null
  ) => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const options = new PanelOptions();
    followSettings(options, settings, panel.id);
    const actions = new KernelActions(
      app.serviceManager.kernels,
      connectionsOf(app.shell),
      trans
    );
    const widget = new SlicePanel(slice, options, actions, trans);
    app.shell.add(widget, 'right', { rank: 600 });
    restorer?.add(widget, widget.id);
    const show = () => {
      app.shell.activateById(widget.id);
      keepFocus(widget.node, () => app.shell.currentWidget?.node);
    };
    addCommands(
      app.commands,
      { slice, options, actions, show },
      palette,
      trans
    );
    return options;
  }
};

const status: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-vgpu/labextension:status',
  description: 'Shows memory and GPU time of the slice in the status bar.',
  autoStart: true,
  requires: [ISliceModel, IPanelOptions],
  optional: [IStatusBar, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    slice: ISliceModel,
    options: IPanelOptions,
    statusBar: IStatusBar | null,
    translator: ITranslator | null
  ) => {
    if (!statusBar) {
      return;
    }
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const open = () => void app.commands.execute(CommandIDs.show);
    statusBar.registerStatusItem(status.id, {
      item: new SliceStatus(slice, options, open, trans),
      align: 'right',
      rank: 100
    });
  }
};

export * from './tokens';
export default [model, panel, status];
