import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ISignal, Signal } from '@lumino/signaling';

/** What the user may choose; `schema/panel.json` has the bounds. */
export interface IOptions {
  /** How far back the charts reach. */
  readonly historyMinutes: number;
  /** Part of the memory limit from which there is a warning, in per cent. */
  readonly warnAtPercent: number;
}

export const HISTORY_MINUTES = [1, 5, 15, 60];

/** The user's choices, and who wants to know when they change. */
export class PanelOptions {
  get value(): IOptions {
    return this._value;
  }

  get changed(): ISignal<this, IOptions> {
    return this._changed;
  }

  set(change: Partial<IOptions>): void {
    this._value = { ...this._value, ...change };
    this._changed.emit(this._value);
  }

  private _value: IOptions = { historyMinutes: 5, warnAtPercent: 90 };
  private readonly _changed = new Signal<this, IOptions>(this);
}

/** Take the user's settings, now and whenever they change; without a registry the defaults stay. */
export function followSettings(
  options: PanelOptions,
  registry: ISettingRegistry | null,
  plugin: string
): void {
  const take = (settings: ISettingRegistry.ISettings): void =>
    options.set({
      historyMinutes: settings.get('historyMinutes').composite as number,
      warnAtPercent: settings.get('warnAtPercent').composite as number
    });
  void registry?.load(plugin).then(
    settings => {
      take(settings);
      settings.changed.connect(take);
    },
    () => {
      // The registry has told the user what it does not like; the defaults stay.
    }
  );
}
