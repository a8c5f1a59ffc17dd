import { inPostgres } from "./killable-service.ts";
import type { TestDatabase } from "./databases.ts";

/** Lets a test set the clock of a Postgres that has its tables already, for all that connect from now on. */
export async function movableDatabaseClock(
  database: TestDatabase,
): Promise<(ahead: string) => Promise<void>> {
  await inPostgres(database, async (client) => {
    await client.query("create schema moved");
    await client.query("create table moved.clock as select interval '0' as ahead");
    await client.query(`
      create function moved.clock_timestamp() returns timestamptz language sql volatile
      as 'select pg_catalog.clock_timestamp() + ahead from moved.clock'
    `);
    const { rows } = await client.query<{ name: string }>("select current_database() as name");
    // A schema that is named before Postgres's own has its functions found first.
    await client.query(`alter database ${rows[0]?.name} set search_path = moved, pg_catalog, public`);
  });
  return async (ahead) => {
    await inPostgres(database, (client) =>
      client.query("update moved.clock set ahead = $1::interval", [ahead]),
    );
  };
}
