/**
 * The only file that knows the server's URLs.
 *
 * Events come over `fetch`, not `EventSource`: that one can carry neither the
 * token nor the XSRF header that Jupyter servers may ask for.
 */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { createParser } from 'eventsource-parser';

import { Silence } from './silence';
import { IReading, isReading } from './wire';

/**
 * Why a stream is over.
 *
 * - `server-unreachable`: no connection, it broke, or nothing came over it;
 * - `server-stopped`: a hub answers in its place: it does not run;
 * - `no-extension`: the server knows no such stream;
 * - `refused`: this user may not see it, or is no longer logged in;
 * - `bad-answer`: something else than figures came.
 */
export type Ending =
  | 'server-unreachable'
  | 'server-stopped'
  | 'no-extension'
  | 'refused'
  | 'bad-answer';

/** Who listens to a stream. */
export interface IListener {
  onReading(reading: IReading): void;
  /** Called once, and not after the stream was disposed. */
  onEnd(ending: Ending): void;
}

/** Open the stream of figures; dispose it to close it. */
export function openStream(
  listener: IListener,
  settings: ServerConnection.ISettings = ServerConnection.makeSettings()
): IDisposable {
  const abort = new AbortController();
  const guarded: IListener = {
    onReading: reading => {
      if (!abort.signal.aborted) {
        listener.onReading(reading);
      }
    },
    onEnd: ending => {
      if (!abort.signal.aborted) {
        listener.onEnd(ending);
      }
    }
  };
  const silence = new Silence(() => {
    guarded.onEnd('server-unreachable');
    abort.abort();
  });
  void readStream(guarded, settings, abort.signal, silence)
    .then(guarded.onEnd)
    .finally(() => silence.dispose());
  return new DisposableDelegate(() => {
    silence.dispose();
    abort.abort();
  });
}

/** Have the server count this moment as activity, so that it is not stopped for being idle. */
export async function keep(
  settings: ServerConnection.ISettings = ServerConnection.makeSettings()
): Promise<void> {
  await post('keep', {}, settings);
}

/**
 * Restart a Jupyter kernel in a part of the slice.
 *
 * @param kernelId - Which.
 * @param memory - As `2GiB` or `1/4`; empty for the whole slice.
 * @param settings - Of the server.
 * @throws Error with the server's own words, when it cannot be had.
 */
export async function choosePart(
  kernelId: string,
  memory: string,
  settings: ServerConnection.ISettings = ServerConnection.makeSettings()
): Promise<void> {
  await post('part', { kernel_id: kernelId, memory }, settings);
}

async function post(
  endpoint: string,
  body: object,
  settings: ServerConnection.ISettings
): Promise<void> {
  const response = await ServerConnection.makeRequest(
    URLExt.join(settings.baseUrl, 'jupyter-vgpu', endpoint),
    { method: 'POST', body: JSON.stringify(body) },
    settings
  );
  if (!response.ok) {
    const answer = decode(await response.text()) as {
      message?: unknown;
    } | null;
    const message = answer?.message;
    throw new Error(
      typeof message === 'string' ? message : response.statusText
    );
  }
}

async function readStream(
  listener: IListener,
  settings: ServerConnection.ISettings,
  signal: AbortSignal,
  silence: Silence
): Promise<Ending> {
  const url = URLExt.join(settings.baseUrl, 'jupyter-vgpu', 'live');
  try {
    const response = await ServerConnection.makeRequest(
      url,
      { signal },
      settings
    );
    if (response.status === 404) {
      return 'no-extension';
    }
    if (response.status === 401 || response.status === 403) {
      return 'refused';
    }
    if (response.status === 424) {
      // source: JupyterHub, handlers/base.py, `UserUrlHandler`
      return 'server-stopped';
    }
    if (!response.ok || !response.body) {
      return 'server-unreachable';
    }
    if (response.headers.get('Content-Type')?.startsWith('text/html')) {
      // The login page of a proxy that no longer knows this user.
      return 'refused';
    }
    return await readEvents(response.body.getReader(), listener, silence);
  } catch {
    return 'server-unreachable';
  }
}

async function readEvents(
  body: ReadableStreamDefaultReader<Uint8Array>,
  listener: IListener,
  silence: Silence
): Promise<Ending> {
  let isBad = false;
  const parser = createParser({
    onEvent: event => {
      const value = decode(event.data);
      if (isReading(value)) {
        listener.onReading(value);
      } else {
        isBad = true;
      }
    }
  });
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await body.read();
    if (done) {
      return 'server-unreachable';
    }
    silence.heard();
    parser.feed(decoder.decode(value, { stream: true }));
    if (isBad) {
      await body.cancel();
      return 'bad-answer';
    }
  }
}

function decode(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
