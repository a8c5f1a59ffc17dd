import { sql } from "kysely";
import type { Kysely } from "kysely";

/** From the folder of the data directory on: whatever stands before it may have been moved since. */
const BUNDLE = /(?<=\/)bundles\/[^/]+\/[^/]+\/[^/]+$/;
const ENVIRONMENT = /(?<=\/)environments\/[^/]+$/;

type Places = { readonly id: Uint8Array; readonly bundle: string; readonly environment: string | null };

/**
 * Folders are named from the data directory on, so that it can be moved. An interpreter is named no longer: it is
 * that of the environment, or the host's of the version that the app's configuration asks for. Nor is the
 * directory of whoever began a build.
 */
export async function places(db: Kysely<unknown>): Promise<void> {
  const versions = await sql<Places>`select id, bundle_dir as bundle, environment from versions`.execute(db);
  for (const { id, bundle, environment } of versions.rows) {
    const inside = environment === null ? null : below(ENVIRONMENT, environment);
    await sql`
      update versions set bundle_dir = ${below(BUNDLE, bundle)}, environment = ${inside} where id = ${id}
    `.execute(db);
  }
  await sql`alter table versions drop column python`.execute(db);

  const builds = await sql<{ id: Uint8Array; payload: string }>`
    select id, payload from builds where payload like '{"dataDir"%'
  `.execute(db);
  for (const { id, payload } of builds.rows) {
    const { request } = JSON.parse(payload) as { readonly request: unknown };
    await sql`update builds set payload = ${JSON.stringify({ request })} where id = ${id}`.execute(db);
  }
}

function below(folder: RegExp, place: string): string {
  return folder.exec(place)?.[0] ?? place;
}
