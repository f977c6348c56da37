import { JupyterFrontEnd } from '@jupyterlab/application';
import { Kernel } from '@jupyterlab/services';
import { nullTranslator } from '@jupyterlab/translation';

import { KernelActions } from '../actions';
import { choosePart } from '../api';
import { connectionsOf } from '../connections';
import { notebook } from './readings';

jest.mock('../api');
jest.mock('@jupyterlab/apputils', () => ({
  ...jest.requireActual('@jupyterlab/apputils'),
  showDialog: jest.fn(() => Promise.resolve({ button: { accept: true } }))
}));

function connection(id: string, isDisposed = false) {
  return {
    id,
    isDisposed,
    dispose: jest.fn(),
    restart: jest.fn(() => Promise.resolve()),
    reconnect: jest.fn(() => Promise.resolve())
  };
}

function shellWith(kernels: object[]): JupyterFrontEnd.IShell {
  const widgets = kernels.map(kernel => ({
    sessionContext: { session: { kernel } }
  }));
  return {
    widgets: () => [{}, { sessionContext: {} }, ...widgets][Symbol.iterator]()
  } as unknown as JupyterFrontEnd.IShell;
}

function actionsWith(kernels: object[], connectTo = jest.fn()): KernelActions {
  return new KernelActions(
    { connectTo } as unknown as Kernel.IManager,
    connectionsOf(shellWith(kernels)),
    nullTranslator.load('jupyter_vgpu')
  );
}

const mine = notebook();

describe('connectionsOf', () => {
  it('finds each open connection to a Jupyter kernel once', () => {
    const one = connection('a');
    const shell = shellWith([one, one, connection('b'), connection('a', true)]);
    expect(connectionsOf(shell)('a')).toEqual([one]);
  });
});

describe('KernelActions', () => {
  it('restarts through the open notebook, and has the others connect anew', async () => {
    const one = connection(mine.kernel_id);
    const other = connection(mine.kernel_id);
    const connectTo = jest.fn();
    await actionsWith([one, other], connectTo).restart(mine);
    expect(one.restart).toHaveBeenCalledTimes(1);
    expect(one.reconnect).not.toHaveBeenCalled();
    expect(other.reconnect).toHaveBeenCalledTimes(1);
    expect(one.dispose).not.toHaveBeenCalled();
    expect(connectTo).not.toHaveBeenCalled();
  });

  it('restarts what is open nowhere through a connection of its own', async () => {
    const own = connection(mine.kernel_id);
    await actionsWith(
      [connection('b')],
      jest.fn().mockReturnValue(own)
    ).restart(mine);
    expect(own.restart).toHaveBeenCalledTimes(1);
    expect(own.dispose).toHaveBeenCalledTimes(1);
  });

  it('has every open connection made anew where the server restarted', async () => {
    const one = connection(mine.kernel_id);
    await actionsWith([one]).choosePart(mine, '1/4');
    expect(choosePart).toHaveBeenCalledWith(mine.kernel_id, '1/4');
    expect(one.reconnect).toHaveBeenCalledTimes(1);
  });
});
