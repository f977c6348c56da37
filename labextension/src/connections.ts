/** The connections to a Jupyter kernel that this page's notebooks and consoles already have. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { ISessionContext } from '@jupyterlab/apputils';
import { Kernel } from '@jupyterlab/services';

/** Tells which connections to a Jupyter kernel are open. */
export type OpenConnections = (kernelId: string) => Kernel.IKernelConnection[];

/**
 * Find the connections of the notebooks and consoles in the main area.
 *
 * A restart goes through one of them: a connection that knows nothing of the
 * restart keeps its socket, and what the new Jupyter kernel says in its first
 * moments can pass it by; a cell that is run at once then never ends.
 */
export function connectionsOf(shell: JupyterFrontEnd.IShell): OpenConnections {
  return kernelId => {
    const found = [...shell.widgets('main')]
      .map(widget => sessionContextOf(widget)?.session?.kernel)
      .filter(kernel => kernel?.id === kernelId && !kernel.isDisposed);
    return [...new Set(found as Kernel.IKernelConnection[])];
  };
}

function sessionContextOf(widget: object): ISessionContext | undefined {
  return (widget as { sessionContext?: ISessionContext }).sessionContext;
}
