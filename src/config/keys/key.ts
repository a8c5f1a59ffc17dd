import type { Reader } from "../readers.ts";

/** What the machine contributes to an app's configuration. */
export type Host = { readonly cpuCount: number };

/** One key of the app's configuration, wherever it may be given. */
export type AppKey<T> = {
  /** Table and key in the file, such as `scaling.cooldown`. */
  readonly path: string;
  /** The member of a deploy payload; null when only the file can give it. */
  readonly payload: string | null;
  readonly reader: Reader<T>;
  /** Written as the file would write it; null means that nothing is set. */
  readonly default: unknown;
  /** Where the default depends on the host and on the fields above this one; `default` is then null. */
  readonly defaultFor?: (host: Host, above: Readonly<Record<string, unknown>>) => unknown;
  readonly meaning: string;
};

/** The keys of one table, by the field that each fills. */
export type AppKeys<C> = { readonly [K in keyof C]: AppKey<C[K]> };
