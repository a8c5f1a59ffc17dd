import { describe, expect } from "vitest";
import { testSettings } from "../../support/test-settings.ts";
import { createLog } from "../../../src/kit/log.ts";
import { startService } from "../../../src/main.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { assertNothingLeft } from "../../support/leak-check.ts";
import { makeOldInstallation } from "../../support/old-release.ts";
import type { OldSchema } from "../../support/old-release.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const MAIN = "def run(n=0):\n    return 2 * n\n";
const SCHEMAS: readonly OldSchema[] = ["0001-first-tables", "0002-async-runs"];

const databases = testDatabases();

describe.each(DATABASE_KINDS)("an upgrade on %s", (kind) => {
  for (const schema of SCHEMAS) {
    verifies("show.upgrade", `from ${schema} keeps every record and executes what was queued`, async () => {
      const database = await databases.empty(kind);
      const old = await makeOldInstallation(database, schema, MAIN);
      const { dataDir, databaseUrl } = database;
      const flags = { dataDir, apiPort: 0, basePort: 0, ...(databaseUrl !== null && { databaseUrl }) };
      const settings = testSettings(flags);
      const service = await startService(settings, { log: createLog("silent") });
      const { apiUrl, owner } = service;
      try {
        expect(owner.projectId).toBe(old.projectId);
        const ask = async (place: string, method = "GET") => {
          const response = await fetch(`${apiUrl}/v4/${owner.projectId}/app/${place}`, {
            method,
            headers: { authorization: `Bearer ${owner.token}` },
          });
          return (await response.json()) as { status?: string; result?: unknown };
        };
        expect(await ask(`runs/${old.endedId}`)).toMatchObject({ status: "success", statusCode: 200 });
        for (const [n, id] of old.queuedIds.entries()) {
          const hasEnded = async () =>
            !["queued", "running"].includes((await ask(`runs/${id}`)).status ?? "");
          await until(`the run ${id} ends`, hasEnded);
          expect(await ask(`runs/${id}`)).toMatchObject({ status: "success", result: 2 * n, attempt: 1 });
        }
        expect(await ask("run", "POST")).toMatchObject({ result: 0 });
      } finally {
        await service.stop();
        await assertNothingLeft(dataDir);
      }
    });
  }
});
