import { ServerConnection } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';

import { choosePart, Ending, keep, openStream } from '../api';
import { SILENCE_MS } from '../silence';
import { IReading } from '../wire';
import { emptyReading, okReading } from './readings';

/** A server that answers with `status` and, piece by piece, with `pieces`. */
function server(status: number, pieces: string[], kind = 'text/event-stream') {
  const asked: Request[] = [];
  const encoder = new TextEncoder();
  const rest = pieces.map(piece => encoder.encode(piece));
  const reader = {
    read: async () => ({ done: rest.length === 0, value: rest.shift() }),
    cancel: async () => undefined
  };
  const settings = ServerConnection.makeSettings({
    baseUrl: 'http://localhost/a/b/',
    token: 'secret',
    fetch: async (request: RequestInfo | URL) => {
      asked.push(request as Request);
      const ok = status === 200;
      const headers = new Headers({ 'Content-Type': kind });
      const body = { getReader: () => reader };
      return { status, ok, headers, body } as never;
    }
  });
  return { asked, settings };
}

/** What a listener hears until the stream is over. */
async function listen(
  settings: ServerConnection.ISettings
): Promise<{ readings: IReading[]; ending: Ending }> {
  const readings: IReading[] = [];
  const ending = await new Promise<Ending>(resolve => {
    openStream(
      { onReading: reading => readings.push(reading), onEnd: resolve },
      settings
    );
  });
  return { readings, ending };
}

function event(reading: unknown): string {
  return `data: ${JSON.stringify(reading)}\n\n`;
}

describe('openStream', () => {
  it('asks below the base URL, with the token', async () => {
    const { asked, settings } = server(200, []);

    await listen(settings);

    expect(asked.map(request => request.url.split('?')[0])).toEqual([
      'http://localhost/a/b/jupyter-vgpu/live'
    ]);
    expect(asked[0].headers.get('Authorization')).toBe('token secret');
  });

  it('hands on each event, also one that comes in pieces', async () => {
    const ok = event(okReading());
    const { settings } = server(200, [
      event(emptyReading('no-slice')) + ok.slice(0, 20),
      ok.slice(20),
      ': nothing new\n\n'
    ]);

    const { readings, ending } = await listen(settings);

    expect(readings).toEqual([emptyReading('no-slice'), okReading()]);
    expect(ending).toBe('server-unreachable');
  });

  it.each([
    [404, 'no-extension'],
    [401, 'refused'],
    [403, 'refused'],
    [424, 'server-stopped'],
    [500, 'server-unreachable']
  ])('says what status %d means', async (status, ending) => {
    const { settings } = server(status, []);

    expect((await listen(settings)).ending).toBe(ending);
  });

  it('takes a page instead of events for one where to log in', async () => {
    const { settings } = server(200, ['<html>'], 'text/html; charset=utf-8');

    expect((await listen(settings)).ending).toBe('refused');
  });

  it.each([
    ['is not JSON', 'data: {\n\n'],
    ['is no reading', event({ state: 'ok' })]
  ])('ends at an event that %s', async (_, text) => {
    const { settings } = server(200, [text, event(okReading())]);

    const { readings, ending } = await listen(settings);

    expect(readings).toEqual([]);
    expect(ending).toBe('bad-answer');
  });

  it('tells nothing after it was closed', async () => {
    const { settings } = server(200, [event(okReading())]);
    const heard: unknown[] = [];
    const tell = (what: unknown) => heard.push(what);

    openStream({ onReading: tell, onEnd: tell }, settings).dispose();
    await new Promise(resolve => setTimeout(resolve, 20));

    expect(heard).toEqual([]);
  });
});

describe('a stream over which nothing comes', () => {
  const comes: (() => void)[] = [];
  const endings: Ending[] = [];
  const aborted = jest.fn();
  let stream: IDisposable;

  beforeEach(async () => {
    jest.useFakeTimers();
    comes.length = endings.length = 0;
    aborted.mockReset();
    const sign = new TextEncoder().encode(': nothing new\n\n');
    const read = () =>
      new Promise(resolve =>
        comes.push(() => resolve({ done: false, value: sign }))
      );
    const settings = ServerConnection.makeSettings({
      baseUrl: 'http://localhost/',
      fetch: async (request: RequestInfo | URL) => {
        (request as Request).signal.addEventListener('abort', aborted);
        return {
          status: 200,
          ok: true,
          headers: new Headers({ 'Content-Type': 'text/event-stream' }),
          body: { getReader: () => ({ read }) }
        } as never;
      }
    });
    const listener = {
      onReading: jest.fn(),
      onEnd: (ending: Ending) => endings.push(ending)
    };
    stream = openStream(listener, settings);
    await jest.advanceTimersByTimeAsync(0);
  });

  afterEach(() => {
    stream.dispose();
    jest.useRealTimers();
  });

  it('is over after a minute, and closed', async () => {
    await jest.advanceTimersByTimeAsync(SILENCE_MS);
    expect(endings).toEqual([]);
    await jest.advanceTimersByTimeAsync(10_000);

    expect(endings).toEqual(['server-unreachable']);
    expect(aborted).toHaveBeenCalledTimes(1);
    await jest.advanceTimersByTimeAsync(10 * SILENCE_MS);
    expect(endings).toHaveLength(1);
  });

  it('goes on as long as there are signs of life', async () => {
    for (let minutes = 0; minutes < 5; minutes++) {
      await jest.advanceTimersByTimeAsync(0.9 * SILENCE_MS);
      comes.shift()!();
    }

    expect(endings).toEqual([]);
  });

  it('is over soon after a sleep in which the timers stood still', async () => {
    jest.setSystemTime(Date.now() + 3_600_000);
    await jest.advanceTimersByTimeAsync(10_000);

    expect(endings).toEqual(['server-unreachable']);
  });
});

/** A server that answers each request with a status and a text. */
function answering(status: number, text: string) {
  const asked: { method: string; url: string; body: string }[] = [];
  const settings = ServerConnection.makeSettings({
    baseUrl: 'http://localhost/a/b/',
    fetch: async (request: RequestInfo | URL) => {
      const { method, url } = request as Request;
      asked.push({
        method,
        url: url.split('?')[0],
        body: await (request as Request).text()
      });
      return {
        status,
        statusText: 'Status',
        ok: status === 200,
        text: async () => text
      } as never;
    }
  });
  return { asked, settings };
}

describe('choosePart and keep', () => {
  it('ask below the base URL', async () => {
    const { asked, settings } = answering(200, '{}');

    await keep(settings);
    await choosePart('k1', '2GiB', settings);

    expect(asked).toEqual([
      {
        method: 'POST',
        url: 'http://localhost/a/b/jupyter-vgpu/keep',
        body: '{}'
      },
      {
        method: 'POST',
        url: 'http://localhost/a/b/jupyter-vgpu/part',
        body: '{"kernel_id":"k1","memory":"2GiB"}'
      }
    ]);
  });

  it.each([
    ['{"message": "It does not fit."}', 'It does not fit.'],
    ['<html>', 'Status'],
    ['null', 'Status']
  ])('fail on %s with the words %s', async (text, words) => {
    const { settings } = answering(409, text);

    await expect(choosePart('k1', '40GiB', settings)).rejects.toThrow(words);
  });
});
