import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Kernel } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';

import { INotebook } from './wire';
import * as words from './words';

/** What a user may do about a notebook from the panel. */
export interface IActions {
  /** Stop what runs; the variables stay. */
  interrupt(notebook: INotebook): Promise<void>;
  /** Ask, then start the Jupyter kernel anew; its memory comes back. */
  restart(notebook: INotebook): Promise<void>;
}

/** The same through JupyterLab's own kernel manager. */
export class KernelActions implements IActions {
  constructor(kernels: Kernel.IManager, trans: TranslationBundle) {
    this._kernels = kernels;
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
      await this._with(notebook, kernel => kernel.restart());
    }
  }

  private async _with(
    notebook: INotebook,
    act: (kernel: Kernel.IKernelConnection) => Promise<void>
  ): Promise<void> {
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
  private readonly _trans: TranslationBundle;
}
