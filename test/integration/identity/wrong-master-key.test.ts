import { rmSync } from "node:fs";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import { startService } from "../../../src/main.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import type { TestDatabase } from "../../support/databases.ts";
import { testSettings } from "../../support/test-settings.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

/** Starts on a database that was used with another key, and had been made ready by `alter`. */
async function startWithOther({ dataDir, databaseUrl }: TestDatabase, alter = () => {}): Promise<void> {
  const flags = { dataDir, apiPort: 0, basePort: 0, ...(databaseUrl !== null && { databaseUrl }) };
  const start = async () => await startService(testSettings(flags), { log: createLog("silent") });
  await (await start()).stop();
  await (await start()).stop();
  alter();
  const key = path.join(dataDir, "master.key");
  rmSync(key);
  await expect(start()).rejects.toThrow(`${key} is not the master key of this database: `);
}

for (const kind of DATABASE_KINDS) {
  verifies("start.master-key", `on ${kind} another master key does not start, and says why`, async () => {
    await startWithOther(await databases.fresh(kind));
  });
}

verifies("start.master-key", "nor does it on a database of an earlier release", async () => {
  const database = await databases.fresh("sqlite");
  await startWithOther(database, () => {
    const file = new DatabaseSync(path.join(database.dataDir, "millrace.db"));
    expect(file.prepare("delete from meta where key = 'master_key_check'").run().changes).toBe(1);
    file.close();
  });
});
