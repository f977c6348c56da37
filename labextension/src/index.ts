/** What the extension adds: the model, the panel, the status bar's item. */

import {
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { SliceModel } from './model';
import { SlicePanel } from './panel';
import { SliceStatus } from './status';
import { ISliceModel } from './tokens';

const DOMAIN = 'jupyter_vgpu';

const SHOW = 'jupyter-vgpu:show';

const model: JupyterFrontEndPlugin<ISliceModel> = {
  id: '@jupyter-vgpu/labextension:model',
  description: "Holds the user's slice of a GPU and what it uses.",
  autoStart: true,
  provides: ISliceModel,
  activate: () => new SliceModel()
};

const panel: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-vgpu/labextension:panel',
  description: "Shows the user's slice of a GPU in the right sidebar.",
  autoStart: true,
  requires: [ISliceModel],
  optional: [ITranslator, ICommandPalette, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    slice: ISliceModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null
  ) => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const widget = new SlicePanel(slice, trans);
    app.shell.add(widget, 'right', { rank: 600 });
    restorer?.add(widget, widget.id);
    app.commands.addCommand(SHOW, {
      label: trans.__('Show GPU Slice'),
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => app.shell.activateById(widget.id)
    });
    palette?.addItem({ command: SHOW, category: trans.__('GPU') });
  }
};

const status: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-vgpu/labextension:status',
  description: 'Shows the memory of the slice in the status bar.',
  autoStart: true,
  requires: [ISliceModel],
  optional: [IStatusBar, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    slice: ISliceModel,
    statusBar: IStatusBar | null,
    translator: ITranslator | null
  ) => {
    if (!statusBar) {
      return;
    }
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const open = () => void app.commands.execute(SHOW);
    statusBar.registerStatusItem(status.id, {
      item: new SliceStatus(slice, open, trans),
      align: 'right',
      rank: 100
    });
  }
};

export * from './tokens';
export default [model, panel, status];
