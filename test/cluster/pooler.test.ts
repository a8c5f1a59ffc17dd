import { Client } from "pg";
import { pino } from "pino";
import { describe, expect, onTestFinished } from "vitest";
import { Condition } from "../../src/kit/concurrency.ts";
import { systemClock } from "../../src/kit/clock.ts";
import { Changes } from "../../src/nodes/changes.ts";
import { packEnded } from "../../src/store/runs/ended-runs.ts";
import { openStore } from "../../src/store/store.ts";
import { testDatabases } from "../support/databases.ts";
import { KillableService } from "../support/killable-service.ts";
import { pgbouncerRelease, startPgbouncer } from "../support/pgbouncer.ts";
import { sampleEnd } from "../support/sample-run.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();
const release = pgbouncerRelease();

const WHY_NOT = release === null ? " (SKIPPED: no pgbouncer; apt-get install pgbouncer)" : "";

// It refuses settings that it does not know, or drops them.
const MODES = {
  "that refuses settings": [],
  "that ignores settings": [
    "ignore_startup_parameters = statement_timeout,idle_in_transaction_session_timeout",
  ],
};

describe.skipIf(release === null).each(Object.entries(MODES))(`a pooler %s${WHY_NOT}`, (_, settings) => {
  verifies("pooler.transactions", "carries every kind of call, also many at a time", async () => {
    const { databaseUrl, dataDir } = await databases.fresh("postgres");
    const pooled = await startPgbouncer(databaseUrl!, settings);
    const options = { databaseUrl: pooled, databaseDirectUrl: databaseUrl, dataDir };
    const stores = [await openStore(options), await openStore(options)];
    for (const store of stores) onTestFinished(() => store.close());
    const work = async (i: number): Promise<void> => {
      const store = stores[i % 2]!;
      const project = { id: `p-${i}`, name: String(i), createdAt: 1 };
      expect(await store.projects.insert(project)).toBe(true);
      expect(await store.projects.find(`p-${i}`)).toEqual(project);
      await store.apps.insertOrFind({ projectId: `p-${i}`, name: "a", createdAt: i });
      await store.runs.insertFinished([packEnded([sampleEnd()])]);
      expect(await store.apps.list(`p-${i}`)).toMatchObject([{ name: "a", createdAt: i }]);
    };
    for (let round = 0; round < 10; round += 1)
      await Promise.all(Array.from({ length: 8 }, (_, i) => work(round * 8 + i)));
    expect(await stores[0]!.retention.usage()).toMatchObject({ runs: 80 });
    expect(await stores[1]!.takesWrites()).toBe(true);
  });

  verifies("pooler.limits", "keeps nobody from giving a locked table up", async () => {
    const { databaseUrl, dataDir } = await databases.fresh("postgres");
    const pooled = await startPgbouncer(databaseUrl!, settings);
    const store = await openStore({ databaseUrl: pooled, databaseDirectUrl: databaseUrl, dataDir });
    onTestFinished(() => store.close());
    const client = new Client({ connectionString: databaseUrl! });
    await client.connect();
    onTestFinished(() => client.end());
    await client.query("begin");
    await client.query("lock table projects in access exclusive mode");
    // The server's own word, within the limit of the kind: not the silence that the client counts.
    const timeout = { code: "storage_unavailable", cause: { code: "57014" } };
    const project = { id: "p", name: "", createdAt: 1 };
    await expect(store.projects.find("p")).rejects.toMatchObject(timeout);
    await expect(store.projects.insert(project)).rejects.toMatchObject(timeout);
    await client.query("commit");
    expect(await store.projects.insert(project)).toBe(true);
  });

  verifies("pooler.hints", "carries no hints, and changes are found all the same", async () => {
    const { databaseUrl, dataDir } = await databases.fresh("postgres");
    const pooled = await startPgbouncer(databaseUrl!, settings);
    const [a, b] = [
      await openStore({ databaseUrl: pooled, dataDir }),
      await openStore({ databaseUrl: pooled, dataDir }),
    ];
    for (const store of [a, b]) onTestFinished(() => store.close());
    const changes = await Changes.open({ store: b, clock: systemClock, log: pino({ level: "silent" }) });
    onTestFinished(() => changes.stop());
    const condition = new Condition();
    const told: string[] = [];
    changes.on("project", (subjects) => {
      told.push(...subjects);
      condition.notify();
    });
    changes.start();
    a.listen(() => {});
    for (const id of ["p-1", "p-2", "p-3"]) {
      await a.projects.insert({ id, name: "", createdAt: 1 });
      await until(`${id} is told`, () => told.includes(id), condition);
    }
  });

  verifies("pooler.service", "is no hindrance to a service", async () => {
    const { databaseUrl, dataDir } = await databases.fresh("postgres");
    const pooled = await startPgbouncer(databaseUrl!, settings);
    const main = "def run(n):\n    return n + 1\n";
    const service = await KillableService.deploy({ databaseUrl: pooled, dataDir }, { main });
    expect(await service.start()).toBe(true);
    const call = async (n: number) => {
      const headers = { authorization: `Bearer ${service.token}`, "content-type": "application/json" };
      const body = JSON.stringify({ n });
      const response = await fetch(`${service.appUrl}/run`, { method: "POST", headers, body });
      return await response.json();
    };
    const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => call(n)));
    expect(answers).toMatchObject(Array.from({ length: 50 }, (_, n) => ({ result: n + 1 })));
    await service.stop();
  });
});
