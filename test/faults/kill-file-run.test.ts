import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import type { RunRecord } from "../../src/shapes/runs.ts";
import { formOf, tarOf } from "../integration/once/site.ts";
import { testDatabases } from "../support/databases.ts";
import { KillableService } from "../support/killable-service.ts";
import { assertNothingLeft } from "../support/leak-check.ts";
import { until } from "../support/until.ts";

const databases = testDatabases();
const SLEEP = { "main.py": "import time\nprint('on', flush=True)\ntime.sleep(60)" };

test("a file whose service is killed ends with it, failed, and leaves nothing", async () => {
  const database = await databases.fresh("sqlite");
  const service = await KillableService.deploy(database, { main: "def run(): return 1" });
  await service.start();
  const ask = async (place: string, init: RequestInit = {}): Promise<unknown> => {
    const headers = { authorization: `Bearer ${service.token}` };
    const response = await fetch(`${service.baseUrl}${place}`, { ...init, headers });
    expect(response.status).toBe(200);
    return await response.json();
  };
  // One in an app that serves, one in an app that has no version.
  const runs: { place: string; runId: string }[] = [];
  for (const name of ["app", "other"]) {
    const place = `projects/${service.projectId}/apps/${service.projectId}-${name}`;
    await ask(`/v3/${place}/create-run-app`, { method: "POST" });
    const body = formOf(tarOf(SLEEP));
    const { runId } = (await ask(`/v3/${place}/run?filename=main.py`, { method: "POST", body })) as {
      runId: string;
    };
    await until("it runs", async () => {
      const { logs } = (await ask(`/v2/${place}/logs?runId=${runId}`)) as { logs: unknown[] };
      return logs.length > 0;
    });
    runs.push({ place, runId });
  }
  await service.kill();
  await assertNothingLeft(database.dataDir);

  await service.start();
  for (const { place, runId } of runs) {
    const find = async () => ((await ask(`/v2/${place}/runs/${runId}`)) as { item: RunRecord }).item;
    await until("its end is stored", async () => (await find()).status === "failed");
    expect((await find()).error?.code).toBe("interrupted");
  }
  const folders = path.join(database.dataDir, "once");
  expect(existsSync(folders) ? readdirSync(folders) : []).toEqual([]);
  await service.stop();
});
