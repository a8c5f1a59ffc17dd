import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Client } from "pg";
import { DATABASE_FILE } from "../../src/store/upkeep/whole-database.ts";
import type { TestDatabase } from "./databases.ts";

/** Keeps transcripts from being written by anybody else, who may go on reading; gives what ends that. */
export async function holdWrites({ databaseUrl, dataDir }: TestDatabase): Promise<() => Promise<void>> {
  if (databaseUrl === null) {
    const database = new DatabaseSync(path.join(dataDir, DATABASE_FILE));
    // The service may be writing just now.
    database.exec("pragma busy_timeout = 60000; begin immediate");
    return async () => await Promise.resolve(database.close());
  }
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query("begin");
  await client.query("lock table transcripts in exclusive mode");
  return async () => await client.end();
}
