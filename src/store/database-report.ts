import type { PythonWish } from "../model/app-config.ts";
import type { StoredAmounts } from "./stored-amounts.ts";

/** What a look at the whole database gave. */
export type DatabaseReport = {
  /** Faults of the file, in SQLite's words. */
  readonly problems: readonly string[];
  /** SQLite: room inside the file, which the next writes fill. */
  readonly freeBytes?: number;
  /** The names of those it has been through. */
  readonly migrations: readonly string[];
  /** Its tables, each with its columns, and its indexes, in the form of `SCHEMA_OBJECTS`. */
  readonly objects: readonly string[];
  /** What each version was made into, folders named from the data directory on. */
  readonly versions: readonly {
    readonly app: string;
    readonly number: number;
    readonly isCurrent: boolean;
    /** All of it is in blobs, where a service that lacks it fetches it. */
    readonly isStored: boolean;
    readonly bundleDir: string;
    readonly environment: string | null;
    readonly python: PythonWish | null;
  }[];
  readonly amounts: StoredAmounts;
  /** Postgres: the services of the installation whose lease stands. */
  readonly nodes?: readonly { readonly name: string; readonly url: string; readonly home: string }[];
  /** A time that cannot be in the future: of the newest run, or by the server's clock; null if there is none. */
  readonly newestAt: number | null;
  /** How many entries of the audit log fit, and the number of the first that does not; null when all do. */
  readonly audit: { readonly count: number; readonly brokenAt: number | null };
};
