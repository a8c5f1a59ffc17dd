import { copyFileSync, mkdirSync, symlinkSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { until } from "../../support/until.ts";
import { Site } from "../async/site.ts";

const databases = testDatabases();

test("try", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const site = new Site({});
  const first = await site.start({ flags: { databaseUrl } });
  const other = new Site({});
  mkdirSync(other.dataDir);
  copyFileSync(path.join(site.dataDir, "master.key"), path.join(other.dataDir, "master.key"));
  mkdirSync(path.join(site.dataDir, "bundles"), { recursive: true });
  symlinkSync(path.join(site.dataDir, "bundles"), path.join(other.dataDir, "bundles"));
  const { app } = await first.deploy("late", { main: "import os\ndef run(n: int = 1):\n    return {'n': n, 'pid': os.getpid()}\n" });
  const t0 = performance.now();
  const second = await other.start({ flags: { databaseUrl } });
  const call = async (service: typeof first) => {
    const answer = await fetch(`${service.service.apiUrl}/v4/${service.service.owner.projectId}/late/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${first.service.owner.token}`, "content-type": "application/json" },
      body: JSON.stringify({ n: 5 }),
    });
    return { status: answer.status, text: await answer.text() };
  };
  console.log("second up after", performance.now() - t0);
  const t1 = performance.now();
  console.log(await call(first), await call(second), app.number, performance.now() - t1);
  const t2 = performance.now();
  await first.service.stop();
  console.log("stopped after", performance.now() - t2);
  console.log(await call(second));
  expect(1).toBe(1);
});
