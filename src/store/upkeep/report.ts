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
  readonly versions: readonly StoredVersion[];
  readonly amounts: StoredAmounts;
  /** Postgres: the services with a valid lease. */
  readonly nodes?: readonly { readonly name: string; readonly url: string; readonly home: string }[];
  /** A time that cannot be in the future: of the newest run, or of the server's clock; null if there is none. */
  readonly newestAt: number | null;
  /** How many entries of the audit log are intact, and the number of the first that is not; null if all are. */
  readonly audit: { readonly count: number; readonly brokenAt: number | null };
};

type StoredVersion = {
  readonly app: string;
  readonly number: number;
  readonly isCurrent: boolean;
  /** Whether all of it is in blobs, from which any service can fetch it. */
  readonly isStored: boolean;
  readonly bundleDir: string;
  readonly environment: string | null;
  readonly python: PythonWish | null;
};

/** How much the database holds. Payloads are inputs, results and transcripts. */
type StoredAmounts = Readonly<Record<"runs" | "payloadBytes" | "logBytes" | "builds" | "deliveries", number>>;

const AMOUNTS = `
  select (select coalesce(sum(runs), 0) from usage) as runs,
    (select coalesce(sum(bytes), 0) from usage) as "payloadBytes",
    (select coalesce(sum(bytes), 0) from log_usage) as "logBytes",
    (select count(*) from builds) as builds,
    (select count(*) from deliveries) as deliveries`;

/** Returns the rows of a query; Postgres returns large numbers, sums and counts as text. */
type Ask = (query: string) => Promise<readonly unknown[]> | readonly unknown[];

/** Reads how much a database holds. */
export async function storedAmounts(ask: Ask): Promise<StoredAmounts> {
  const [row] = (await ask(AMOUNTS)) as readonly Record<keyof StoredAmounts, number | string>[];
  const amounts = Object.entries(row!).map(([name, amount]) => [name, Number(amount)]);
  return Object.fromEntries(amounts) as StoredAmounts;
}

const VERSIONS = `
  select apps.project_id || '-' || apps.name as app, versions.number as number,
    coalesce(apps.current_version_id = versions.id, false) as "isCurrent",
    versions.bundle_dir as "bundleDir", versions.environment as environment, versions.config as config,
    versions.bundle_blob is not null
      and (versions.environment is null or versions.environment_blob is not null) as "isStored"
  from versions join apps on apps.number = versions.app_number
  where apps.deleted_at is null order by 1, 2`;

/** SQLite has no booleans. */
type VersionRow = Omit<StoredVersion, "isCurrent" | "isStored"> & {
  readonly config: string;
  readonly isCurrent: unknown;
  readonly isStored: unknown;
};

/** Reads the versions in a database. */
export async function storedVersions(ask: Ask): Promise<DatabaseReport["versions"]> {
  const rows = (await ask(VERSIONS)) as readonly VersionRow[];
  return rows.map(({ config, ...version }) => ({
    ...version,
    isCurrent: Boolean(version.isCurrent),
    isStored: Boolean(version.isStored),
    python: pythonWish((JSON.parse(config) as AppConfig).deployment),
  }));
}
