import { ISettingRegistry, SettingRegistry } from '@jupyterlab/settingregistry';
import { DataConnector } from '@jupyterlab/statedb';

import * as schema from '../../schema/panel.json';
import { followSettings, IOptions, PanelOptions } from '../options';

const PLUGIN = '@jupyter-vgpu/labextension:panel';
const DEFAULTS = new PanelOptions().value;

/** What the server keeps of the user's settings: a file as the user wrote it, which it does not read. */
class SettingsFile extends DataConnector<ISettingRegistry.IPlugin, string> {
  constructor(private _raw = '{}') {
    super();
  }

  async fetch(id: string): Promise<ISettingRegistry.IPlugin> {
    const data = { composite: {}, user: {} };
    // A registry may write into what it gets.
    const copy = JSON.parse(JSON.stringify(schema));
    return { id, schema: copy, raw: this._raw, data, version: '0' };
  }

  async save(_: string, raw: string): Promise<void> {
    this._raw = raw;
  }
}

/** Follow a user's settings file through JupyterLab's own registry. */
async function follow(
  raw?: string
): Promise<{ options: PanelOptions; registry: SettingRegistry }> {
  const connector = new SettingsFile(raw);
  const registry = new SettingRegistry({ connector });
  const options = new PanelOptions();
  followSettings(options, registry, PLUGIN);
  await registry.load(PLUGIN).catch(() => undefined);
  return { options, registry };
}

// A registry tells the console what it refuses.
beforeEach(() => {
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
});

afterEach(() => {
  jest.restoreAllMocks();
});

it('has the defaults of the schema', async () => {
  const { properties } = schema;
  const said = {
    historyMinutes: properties.historyMinutes.default,
    warnAtPercent: properties.warnAtPercent.default
  };
  expect((await follow()).options.value).toEqual(said);
  expect(DEFAULTS).toEqual(said);
});

const EDGES: [keyof IOptions, number, number][] = [
  ['historyMinutes', 1, 60],
  ['warnAtPercent', 50, 100]
];

describe.each(EDGES)('%s', (key, least, most) => {
  it.each([least, most])('may be %d', async value => {
    const { options, registry } = await follow();

    await registry.set(PLUGIN, key, value);

    expect(options.value).toEqual({ ...DEFAULTS, [key]: value });
  });

  it.each([least - 1, most + 1, least + 0.5, 'many', null])(
    'may not be %p: the registry refuses it, and the panel goes on with what it had',
    async value => {
      const { options, registry } = await follow();
      await registry.set(PLUGIN, key, least);

      await expect(registry.set(PLUGIN, key, value)).rejects.toThrow();

      expect(options.value[key]).toBe(least);
      // And nothing of it is kept: the file is as it was.
      const again = await registry.reload(PLUGIN);
      expect(again.get(key).composite).toBe(least);
    }
  );

  it('out of bounds in a file written by hand leaves the defaults', async () => {
    const { options } = await follow(JSON.stringify({ [key]: most + 1 }));

    expect(options.value).toEqual(DEFAULTS);
  });
});

it('knows no other setting', async () => {
  const { options, registry } = await follow();

  await expect(registry.set(PLUGIN, 'memory', 1)).rejects.toThrow();

  expect(options.value).toEqual(DEFAULTS);
});
