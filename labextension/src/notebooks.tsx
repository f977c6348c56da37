import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IActions } from './actions';
import { kernelState } from './names';
import { INotebook, IPart, IProcess, IUsage } from './wire';
import * as words from './words';

/** Who of the user's uses the slice: notebooks first, then what belongs to none. */
export function Notebooks(props: {
  usage: IUsage;
  notebooks: readonly INotebook[];
  actions: IActions;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { usage, notebooks, actions, trans } = props;
  const others = othersThan(usage, notebooks);
  return (
    <section className="jp-VGPUPanel-section">
      <h3>{trans.__('Your notebooks')}</h3>
      {usage.processes.length === 0 && (
        <p className="jp-VGPUPanel-dim">{trans.__('None uses the GPU now.')}</p>
      )}
      {notebooks.length + others.length > 0 && (
        <ul className="jp-VGPUPanel-holders">
          {notebooks.map((notebook, index) => (
            <Notebook
              key={notebook.kernel_id}
              notebook={notebook}
              part={index}
              actions={actions}
              trans={trans}
            />
          ))}
          {others.map(process => (
            <Other key={process.pid} process={process} trans={trans} />
          ))}
        </ul>
      )}
    </section>
  );
}

function Notebook(props: {
  notebook: INotebook;
  part: number;
  actions: IActions;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { notebook, part, actions, trans } = props;
  const name = words.notebookName(notebook, trans);
  return (
    <li data-notebook={notebook.path || notebook.kernel_id}>
      <div className="jp-VGPUPanel-row">
        <span
          className="jp-VGPUPanel-name"
          title={notebook.path || notebook.kernel_name}
        >
          <span className={`jp-VGPUSwatch ${partClass(part)}`} />
          {name}
        </span>
        <span data-figure="held">{words.holds(notebook, trans)}</span>
      </div>
      {notebook.part && (
        <PartChoice
          notebook={notebook}
          part={notebook.part}
          name={name}
          actions={actions}
          trans={trans}
        />
      )}
      <div className="jp-VGPUPanel-actions">
        <span className="jp-VGPUPanel-dim">
          {notebook.pids.length > 0
            ? kernelState(notebook.execution_state, trans)
            : trans.__('does not use the GPU')}
        </span>
        {notebook.pids.length > 0 && (
          <div className="jp-VGPUPanel-buttons">
            <button
              type="button"
              disabled={notebook.execution_state !== 'busy'}
              aria-label={trans.__('Interrupt %1', name)}
              onClick={() => void actions.interrupt(notebook)}
            >
              {trans.__('Interrupt')}
            </button>
            <button
              type="button"
              aria-label={trans.__('Restart the Jupyter kernel of %1', name)}
              onClick={() => void actions.restart(notebook)}
            >
              {trans.__('Restart…')}
            </button>
          </div>
        )}
      </div>
    </li>
  );
}

const WHOLE = '';
const OTHER = 'other';

/** What the notebook has of the slice, and may have instead. */
function PartChoice(props: {
  notebook: INotebook;
  part: IPart;
  name: string;
  actions: IActions;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { notebook, part, name, actions, trans } = props;
  const offered = [...new Set([WHOLE, '1/4', '1/2', '3/4', part.memory])];
  const label = (memory: string): string => {
    if (memory === WHOLE) {
      return trans.__('whole slice');
    }
    return memory === part.memory
      ? `${memory} (${words.bytes(part.memory_limit_bytes)})`
      : memory;
  };
  return (
    <label className="jp-VGPUPanel-row jp-VGPUPanel-range">
      <span className="jp-VGPUPanel-dim">{trans.__('Part')}</span>
      <select
        aria-label={trans.__('Part of the slice for %1', name)}
        value={part.memory}
        onChange={event => {
          const memory = event.target.value;
          void actions.choosePart(
            notebook,
            memory === OTHER ? undefined : memory
          );
        }}
      >
        {offered.map(memory => (
          <option key={memory} value={memory}>
            {label(memory)}
          </option>
        ))}
        <option value={OTHER}>{trans.__('another part…')}</option>
      </select>
    </label>
  );
}

function Other(props: {
  process: IProcess;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { process, trans } = props;
  return (
    <li data-process={process.pid}>
      <div className="jp-VGPUPanel-row">
        <span className="jp-VGPUPanel-name" title={process.name}>
          <span className="jp-VGPUSwatch jp-mod-other" />
          {process.name}{' '}
          <span className="jp-VGPUPanel-dim">
            {trans.__('process %1', process.pid)}
          </span>
        </span>
        <span data-figure="held">
          {words.bytes(words.held(process).memory)}
        </span>
      </div>
    </li>
  );
}

/** The processes that belong to no notebook of this server. */
export function othersThan(
  usage: IUsage,
  notebooks: readonly INotebook[]
): IProcess[] {
  const known = new Set(notebooks.flatMap(notebook => notebook.pids));
  return usage.processes.filter(process => !known.has(process.pid));
}

/** The class that gives a notebook its colour, in the meter as in the list. */
export function partClass(index: number): string {
  return `jp-mod-part${index % 5}`;
}
