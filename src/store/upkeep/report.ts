import { type AppConfig, type PythonWish, pythonWish } from "../../model/app-config.ts";

/** The result of an inspection of the whole database. */
export type DatabaseReport = {
  /** Faults of the file, in SQLite's words. */
  readonly problems: readonly string[];
  /** SQLite: unused bytes in the file, which later writes fill. */
  readonly freeBytes?: number;
  /** The names of the applied migrations. */
  readonly migrations: readonly string[];
  /** Its tables, each with its columns, and its indexes, in the form of `SCHEMA_OBJECTS`. */
  readonly objects: readonly string[];
  /** The folders of each version, relative to the data directory. */
  readonly versions: readonly {
    readonly app: string;
    readonly number: number;
    readonly isCurrent: boolean;
    /** Whether all of it is in blobs, from which any service can fetch it. */
    readonly isStored: boolean;
    readonly bundleDir: string;
    readonly environment: string | null;
    readonly python: PythonWish | null;
  }[];
  readonly amounts: StoredAmounts;
  /** Postgres: the services with a valid lease. */
  readonly nodes?: readonly { readonly name: string; readonly url: string; readonly home: string }[];
  /** A time that cannot be in the future: of the newest run, or of the server's clock; null if there is none. */
  readonly newestAt: number | null;
  /** How many entries of the audit log are intact, and the number of the first that is not; null if all are. */
  readonly audit: { readonly count: number; readonly brokenAt: number | null };
};

/** How much the database holds. */
type StoredAmounts = {
  readonly runs: number;
  /** Of inputs, results and transcripts. */
  readonly payloadBytes: number;
  readonly logBytes: number;
  readonly builds: number;
  readonly deliveries: number;
};

const AMOUNTS = `
  select (select coalesce(sum(runs), 0) from usage) as runs,
    (select coalesce(sum(bytes), 0) from usage) as payloads,
    (select coalesce(sum(bytes), 0) from log_usage) as logs,
    (select count(*) from builds) as builds,
    (select count(*) from deliveries) as deliveries`;

/** Reads how much a database holds. */
export async function storedAmounts(
  ask: (query: string) => Promise<readonly unknown[]> | readonly unknown[],
): Promise<StoredAmounts> {
  const [row] = (await ask(AMOUNTS)) as readonly Record<string, number | string>[];
  // Postgres returns sums and counts as text.
  const amount = (name: string): number => Number(row?.[name] ?? 0);
  return {
    runs: amount("runs"),
    payloadBytes: amount("payloads"),
    logBytes: amount("logs"),
    builds: amount("builds"),
    deliveries: amount("deliveries"),
  };
}

const VERSIONS = `
  select apps.project_id || '-' || apps.name as app, versions.number as number,
    case when apps.current_version_id = versions.id then 1 else 0 end as current,
    versions.bundle_dir as bundle, versions.environment as environment, versions.config as config,
    case when versions.bundle_blob is not null
      and (versions.environment is null or versions.environment_blob is not null) then 1 else 0 end as stored
  from versions join apps on apps.number = versions.app_number
  where apps.deleted_at is null order by 1, 2`;

/** Reads the versions in a database. */
export async function storedVersions(
  ask: (query: string) => Promise<readonly unknown[]> | readonly unknown[],
): Promise<DatabaseReport["versions"]> {
  const rows = (await ask(VERSIONS)) as readonly Row[];
  return rows.map(({ app, number, current, bundle, environment, config, stored }) => ({
    app,
    number: Number(number),
    isCurrent: Number(current) === 1,
    isStored: Number(stored) === 1,
    bundleDir: bundle,
    environment,
    python: pythonWish((JSON.parse(config) as AppConfig).deployment),
  }));
}

type Row = {
  readonly app: string;
  readonly number: number | string;
  readonly current: number | string;
  readonly stored: number | string;
  readonly bundle: string;
  readonly environment: string | null;
  readonly config: string;
};
