import type { DatabaseReport } from "./database-report.ts";
import { pythonWish } from "../model/app-config.ts";
import type { AppConfig } from "../model/app-config.ts";

const QUERY = `
  select apps.project_id || '-' || apps.name as app, versions.number as number,
    case when apps.current_version_id = versions.id then 1 else 0 end as current,
    versions.bundle_dir as bundle, versions.environment as environment, versions.config as config,
    case when versions.bundle_blob is not null
      and (versions.environment is null or versions.environment_blob is not null) then 1 else 0 end as stored
  from versions join apps on apps.number = versions.app_number
  where apps.deleted_at is null order by 1, 2`;

/** Reads what a database says of its versions. */
export async function storedVersions(
  ask: (query: string) => Promise<readonly unknown[]> | readonly unknown[],
): Promise<DatabaseReport["versions"]> {
  const rows = (await ask(QUERY)) as readonly Row[];
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
