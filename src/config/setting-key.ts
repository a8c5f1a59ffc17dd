import type { Reader } from "./readers.ts";

/** One setting: its name gives the flag, the environment variable and the key in the config file. */
export type SettingKey<T> = {
  /** snake_case. */
  readonly name: string;
  readonly reader: Reader<T>;
  /** Written as a flag would write it; null means that nothing is set. */
  readonly default: string | null;
  readonly meaning: string;
};
