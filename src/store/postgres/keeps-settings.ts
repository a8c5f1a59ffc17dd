import type { Client } from "pg";
import { DatabaseError } from "pg";

const WAIT_MS = 5_000;
/** No limit that anybody would set: a session that has it was given it here. */
const ASKED_MS = 12_345;
/** So PgBouncer refuses what it does not know; told to ignore that, it does not pass it on. */
const REFUSED = "08P01";

/**
 * Whether a session has the settings that it is begun with. Not where a pooler lends it out for one transaction at a
 * time: the next one is another's.
 */
export async function keepsSettings(databaseUrl: string, client: typeof Client): Promise<boolean> {
  const connection = new client({
    connectionString: databaseUrl,
    application_name: "millrace",
    connectionTimeoutMillis: WAIT_MS,
    query_timeout: WAIT_MS,
    statement_timeout: ASKED_MS,
  });
  // What breaks is told by what waits for it.
  connection.on("error", () => {});
  try {
    await connection.connect();
    const { rows } = await connection.query<{ limit: string }>(
      "select current_setting('statement_timeout') as limit",
    );
    return rows[0]?.limit === `${ASKED_MS}ms`;
  } catch (error) {
    if (error instanceof DatabaseError && error.code === REFUSED) return false;
    throw error;
  } finally {
    await connection.end().catch(() => {});
  }
}
