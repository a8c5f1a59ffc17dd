import { rmSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import { startService } from "../../../src/main.ts";
import { DATABASE_KINDS, type TestDatabase, testDatabases } from "../../support/databases.ts";
import { testSettings } from "../../support/test-settings.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

/** Starts on a database that was used with another key. */
async function startWithOther({ dataDir, databaseUrl }: TestDatabase): Promise<void> {
  const flags = { dataDir, apiPort: 0, basePort: 0, ...(databaseUrl !== null && { databaseUrl }) };
  const start = async () => await startService(testSettings(flags), { log: createLog("silent") });
  await (await start()).stop();
  await (await start()).stop();
  const key = path.join(dataDir, "master.key");
  rmSync(key);
  await expect(start()).rejects.toThrow(`${key} is not the master key of this database: `);
}

for (const kind of DATABASE_KINDS) {
  verifies("start.master-key", `on ${kind} another master key does not start, and says why`, async () => {
    await startWithOther(await databases.fresh(kind));
  });
}
