import type { Reader } from "../readers.ts";
import type { Settings } from "../setting-keys.ts";

/** The most that apps may set for themselves of what costs the service memory or room on its disk. */
export type Ceilings = Pick<
  Settings,
  "maxAppBodyBytes" | "maxAppResultBytes" | "maxAppChunkBytes" | "maxAppTranscriptBytes"
>;

/** What the machine that runs the app, and who runs it, contribute to its configuration. */
export type Host = {
  readonly cpuCount: number;
  /** Absent where nobody but the app itself is asked. */
  readonly ceilings?: Ceilings;
};

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
  /** The service's setting that says how much may be asked for; a default gives way to it. */
  readonly ceiling?: keyof Ceilings;
  readonly meaning: string;
};

/** The keys of one table, by the field that each fills. */
export type AppKeys<C> = { readonly [K in keyof C]: AppKey<C[K]> };
