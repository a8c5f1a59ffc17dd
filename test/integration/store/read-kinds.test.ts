import { Client } from "pg";
import { expect, onTestFinished } from "vitest";
import { openStore } from "../../../src/store/store.ts";
import { testDatabases } from "../../support/databases.ts";
import { queuedRun, samplePayload } from "../../support/sample-run.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
/** More than a service has connections for reads. */
const READERS = 20;

verifies(
  "lease.apart",
  "those who ask for their runs while that table is rewritten keep nobody else from reading",
  async () => {
    const database = await databases.fresh("postgres");
    const store = await openStore(database);
    const other = new Client({ connectionString: database.databaseUrl! });
    await other.connect();
    onTestFinished(async () => {
      await other.end();
      await store.close();
    });
    const createdAt = Date.now();
    await store.projects.insert({ id: "p-reads", name: "test", createdAt });
    const { number } = await store.apps.insertOrFind({ projectId: "p-reads", name: "app", createdAt });
    const run = queuedRun({ appNumber: number });
    await store.runs.accept([{ run, payload: samplePayload(), owner: null }]);
    // As VACUUM FULL and ALTER TABLE do.
    await other.query("begin; lock table runs in access exclusive mode");
    const found = Array.from({ length: READERS }, () => store.runs.find({ appNumber: number, id: run.id }));
    await until("some wait", async () => {
      const waiting = await other.query("select 1 from pg_locks where not granted");
      return waiting.rowCount! > 0;
    });
    expect(await store.meta.migrations()).not.toEqual([]);
    expect(await store.tokens.findByJtiHash(Buffer.alloc(32))).toBeNull();
    expect(await store.apps.list("p-reads")).toHaveLength(1);
    expect(await store.logs.last()).toBeNull();
    await other.query("rollback");
    // On a busy machine some may have been given up.
    for (const each of await Promise.allSettled(found))
      if (each.status === "fulfilled") expect(each.value?.id).toBe(run.id);
  },
);
