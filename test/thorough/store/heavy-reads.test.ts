import { Client } from "pg";
import { describe, expect, onTestFinished } from "vitest";
import { threadsMs } from "../../../src/kit/clock.ts";
import { AppError } from "../../../src/model/errors.ts";
import { operationNamed } from "../../../src/store/operations.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { openSession } from "../../../src/store/sqlite/session.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, type TestDatabase, testDatabases } from "../../support/databases.ts";
import { idAt, sampleEnd, sampleRun } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const HOUR_MS = 3_600_000;
const FROM_MS = 1_700_000_000_000;
const SPAN = {
  projectId: "p-a",
  appNumber: null,
  fromMs: FROM_MS,
  toMs: FROM_MS + HOUR_MS,
  stepMs: 60_000,
  maxRuns: 200_000,
};

async function filled(database: TestDatabase, count: number): Promise<Store> {
  const store = await openStore(database);
  onTestFinished(() => store.close());
  await store.projects.insert({ id: "p-a", name: "a", createdAt: 0 });
  const { number: appNumber } = await store.apps.insertOrFind({ projectId: "p-a", name: "a", createdAt: 0 });
  const ends = Array.from({ length: count }, (_, place) => {
    const createdAt = FROM_MS + (place * HOUR_MS) / count;
    return sampleEnd(sampleRun({ id: idAt(createdAt), appNumber, createdAt, responseMs: 1 + (place % 100) }));
  });
  await store.runs.insertFinished([packEnded(ends)]);
  return store;
}

describe.each(DATABASE_KINDS)("%s", (kind) => {
  verifies(
    "shares.heavy",
    "a quick read does not wait for the heavy ones that were asked for before",
    async () => {
      const store = await filled(await databases.fresh(kind), 5_000);
      // The thread and the connections are there by now.
      await Promise.all([store.runFigures.ofSpan(SPAN), store.projects.find("p-a")]);
      let done = 0;
      const heavy = Array.from({ length: 20 }, async () => {
        // On a machine that is very busy the last of them may run out of time.
        const figures = await store.runFigures.ofSpan(SPAN).catch((error: AppError) => error.code);
        done += 1;
        return typeof figures === "string" ? figures : figures.total.byState.success;
      });
      expect(await store.projects.find("p-a")).toMatchObject({ id: "p-a" });
      expect(done).toBeLessThan(20);
      for (const found of await Promise.all(heavy)) expect([5_000, "query_timeout"]).toContain(found);
    },
  );
});

verifies("shares.heavy-time", "SQLite: past its time a heavy read begins no further statement", async () => {
  const database = await databases.fresh("sqlite");
  await filled(database, 10);
  const session = await openSession("read", `${database.dataDir}/millrace.db`);
  try {
    const ask = () => operationNamed("runFigures.ofSpan").run(session, SPAN as never);
    session.deadline.atMs = threadsMs() + HOUR_MS;
    expect(await ask()).toMatchObject({ total: { byState: { success: 10 } } });
    session.deadline.atMs = 0;
    const refused = await ask().catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(AppError);
    expect((refused as AppError).code).toBe("query_timeout");
    session.deadline.atMs = null;
    expect(await ask()).toMatchObject({ total: { byState: { success: 10 } } });
  } finally {
    await session.db.destroy();
  }
});

verifies(
  "shares.heavy-time",
  "Postgres: the server ends a heavy read that takes too long, and others go on",
  async () => {
    const database = await databases.fresh("postgres");
    const store = await filled(database, 10);
    const locker = new Client({ connectionString: database.databaseUrl ?? "" });
    await locker.connect();
    try {
      await locker.query("begin");
      await locker.query("lock table runs in access exclusive mode");
      const heavy = [1, 2, 3].map(() => store.runFigures.ofSpan(SPAN).catch((error: unknown) => error));
      for (let count = 0; count < 20; count++)
        expect(await store.projects.find("p-a")).toMatchObject({ id: "p-a" });
      for (const refused of await Promise.all(heavy.slice(0, 2)))
        expect(refused).toMatchObject({ code: "query_timeout" });
      await locker.query("rollback");
      await heavy[2];
    } finally {
      await locker.end();
    }
    expect(await store.runFigures.ofSpan(SPAN)).toMatchObject({ total: { byState: { success: 10 } } });
  },
);
