import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { IListener, openStream } from '../api';
import { SliceModel } from '../model';
import { PanelOptions } from '../options';
import { SlicePanel } from '../panel';

const open = jest.mocked(openStream);

/** What a view is shown on: a model whose stream is the test's. The test's file mocks `../api` and `../plot`. */
export class Stage {
  /** Have a new one before each test of the file. */
  constructor() {
    beforeEach(() => {
      this.isStreaming = false;
      open.mockReset().mockImplementation(() => {
        this.isStreaming = true;
        return {
          isDisposed: false,
          dispose: () => {
            this.isStreaming = false;
          }
        };
      });
      this.model = new SliceModel();
      this.options = new PanelOptions();
    });

    afterEach(() => {
      this.model.dispose();
    });
  }

  model!: SliceModel;
  options!: PanelOptions;
  isStreaming = false;
}

/** Who listens to the stream that was opened last. */
export function listener(): IListener {
  return open.mock.calls[open.mock.calls.length - 1][0];
}

/** Choose an option as a person does: React hears of it by the event. */
export function choose(select: HTMLSelectElement, value: string): void {
  select.value = value;
  select.dispatchEvent(new Event('change', { bubbles: true }));
}

/** Let Lumino and React draw. */
export async function drawn(widget: Widget): Promise<void> {
  MessageLoop.flush();
  await (widget as SlicePanel).renderPromise;
  await new Promise(resolve => setTimeout(resolve, 20));
  // React draws a few milliseconds at a time and lets others have their turn:
  // more turns where the machine is slow, however long each takes.
  for (let turn = 0; turn < 20; turn++) {
    await new Promise(resolve => setTimeout(resolve, 0));
  }
}
