import { ServerConnection } from '@jupyterlab/services';

import { choosePart, Ending, keep, openStream } from '../api';
import { IReading } from '../wire';
import { emptyReading, okReading } from './readings';

/** A server that answers with `status` and, piece by piece, with `pieces`. */
function server(status: number, pieces: string[]) {
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
      return { status, ok, body: { getReader: () => reader } } as never;
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
    [500, 'server-unreachable']
  ])('says what status %d means', async (status, ending) => {
    const { settings } = server(status, []);

    expect((await listen(settings)).ending).toBe(ending);
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
