import {
  Dialog,
  InputDialog,
  showDialog,
  showErrorMessage
} from '@jupyterlab/apputils';
import { Kernel } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';

import { choosePart, keep } from './api';
import { OpenConnections } from './connections';
import { INotebook } from './wire';
import * as words from './words';

/** What a user may do about a notebook from the panel. */
export interface IActions {
  /** Stop what runs; the variables stay. */
  interrupt(notebook: INotebook): Promise<void>;
  /** Ask, then start the Jupyter kernel anew; its memory comes back. */
  restart(notebook: INotebook): Promise<void>;
  /** Ask, then start the Jupyter kernel anew in a part of the slice; without `memory`, ask for that first. */
  choosePart(notebook: INotebook, memory?: string): Promise<void>;
  /** Have the server go on although nothing happens. */
  keep(): Promise<void>;
}

/** The same through the open notebook's own connection, or one of JupyterLab's kernel manager. */
export class KernelActions implements IActions {
  constructor(
    kernels: Kernel.IManager,
    open: OpenConnections,
    trans: TranslationBundle
  ) {
    this._kernels = kernels;
    this._open = open;
    this._trans = trans;
  }

  async interrupt(notebook: INotebook): Promise<void> {
    await this._with(notebook, kernel => kernel.interrupt());
  }

  async restart(notebook: INotebook): Promise<void> {
    const trans = this._trans;
    const answer = await showDialog({
      title: trans.__('Restart the Jupyter kernel?'),
      body: trans.__(
        '%1 gives back %2 of GPU memory and loses all its variables.',
        words.notebookName(notebook, trans),
        words.bytes(words.held(notebook).memory)
      ),
      buttons: [
        Dialog.cancelButton(),
        Dialog.warnButton({ label: trans.__('Restart') })
      ]
    });
    if (answer.button.accept) {
      await this._with(notebook, async kernel => {
        await kernel.restart();
        await this._reconnect(notebook, kernel);
      });
    }
  }

  async choosePart(notebook: INotebook, memory?: string): Promise<void> {
    const trans = this._trans;
    const name = words.notebookName(notebook, trans);
    const wanted = memory ?? (await this._askForPart(name, notebook));
    if (wanted === null) {
      return;
    }
    const answer = await showDialog({
      title: trans.__('Restart the Jupyter kernel?'),
      body: wanted
        ? trans.__(
            '%1 gets %2 of your slice, which your other notebooks then do not have, and loses all its variables.',
            name,
            wanted
          )
        : trans.__(
            '%1 shares the whole slice with your other notebooks, and loses all its variables.',
            name
          ),
      buttons: [
        Dialog.cancelButton(),
        Dialog.warnButton({ label: trans.__('Restart') })
      ]
    });
    if (answer.button.accept) {
      await this._say(async () => {
        await choosePart(notebook.kernel_id, wanted);
        await this._reconnect(notebook);
      });
    }
  }

  async keep(): Promise<void> {
    await this._say(keep);
  }

  private async _askForPart(
    name: string,
    notebook: INotebook
  ): Promise<string | null> {
    const trans = this._trans;
    const answer = await InputDialog.getText({
      title: trans.__('Part of the slice for %1', name),
      label: trans.__('Memory, as 2GiB or 1/4:'),
      text: notebook.part?.memory ?? ''
    });
    return answer.button.accept ? (answer.value ?? '').trim() : null;
  }

  /** Do something at the server; what it says against that is shown. */
  private async _say(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      await showErrorMessage(
        this._trans.__('The server did not do that'),
        error instanceof Error ? error.message : String(error)
      );
    }
  }

  /** After a restart, bring every open connection to the new Jupyter kernel. */
  private async _reconnect(
    notebook: INotebook,
    except?: Kernel.IKernelConnection
  ): Promise<void> {
    const others = this._open(notebook.kernel_id).filter(
      kernel => kernel !== except
    );
    await Promise.all(others.map(kernel => kernel.reconnect()));
  }

  private async _with(
    notebook: INotebook,
    act: (kernel: Kernel.IKernelConnection) => Promise<void>
  ): Promise<void> {
    const [open] = this._open(notebook.kernel_id);
    if (open) {
      await act(open);
      return;
    }
    const kernel = this._kernels.connectTo({
      model: { id: notebook.kernel_id, name: notebook.kernel_name }
    });
    try {
      await act(kernel);
    } finally {
      kernel.dispose();
    }
  }

  private readonly _kernels: Kernel.IManager;
  private readonly _open: OpenConnections;
  private readonly _trans: TranslationBundle;
}
