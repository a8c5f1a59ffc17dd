import { createHash } from "node:crypto";
import { Client } from "pg";
import { expect, onTestFinished } from "vitest";
import { openStore } from "../../../src/store/store.ts";
import { testDatabases } from "../../support/databases.ts";
import { queuedRun, samplePayload } from "../../support/sample-run.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const IS_FULL = process.env["MILLRACE_FAULTS"] === "full";
/** A write is given up after 4 s: on a busy machine that may be before another has made way for it. */
const WHY_NOT = "only MILLRACE_FAULTS=full has a machine of its own";
const WAITING = `select 1 from pg_locks join pg_stat_activity using (pid)
  where not granted and datname = current_database()`;

/** A store on a database with that default, and somebody else on it. */
async function opened(setting: string) {
  const database = await databases.fresh("postgres");
  const other = new Client({ connectionString: database.databaseUrl! });
  await other.connect();
  const { rows } = await other.query<{ name: string }>("select current_database() as name");
  await other.query(`alter database "${rows[0]!.name}" set ${setting}`);
  const store = await openStore(database);
  onTestFinished(async () => {
    await other.end();
    await store.close();
  });
  const createdAt = Date.now();
  await store.projects.insert({ id: "p-conflict", name: "test", createdAt });
  const { number } = await store.apps.insertOrFind({ projectId: "p-conflict", name: "app", createdAt });
  const accepted = () => ({
    run: queuedRun({ appNumber: number }),
    payload: samplePayload(),
    owner: null,
  });
  const keyed = () =>
    store.runs.acceptKeyed({
      accepted: accepted(),
      keyHash: createHash("sha256").update("key").digest(),
      fingerprint: createHash("sha256").update("same").digest(),
      now: createdAt,
      keptMs: 1_000,
    });
  const waits = () => until("it waits", async () => (await other.query(WAITING)).rowCount === 1);
  return { store, other, accept: () => store.runs.accept([accepted()]), keyed, waits };
}

verifies(
  "postgres.conflicts",
  "where transactions are serializable by default, a write that waited for another is done all the same",
  async ({ skip }) => {
    if (!IS_FULL) skip(WHY_NOT);
    const { other, accept, keyed, waits } = await opened("default_transaction_isolation = 'serializable'");
    for (const write of [accept, keyed]) {
      await other.query("begin; update usage set runs = runs");
      const written = write();
      await waits();
      await other.query("commit");
      await written;
    }
  },
);

verifies("postgres.conflicts", "a write that a deadlock ended is done again", async ({ skip }) => {
  if (!IS_FULL) skip(WHY_NOT);
  const { other, keyed, waits } = await opened("deadlock_timeout = '10ms'");
  await other.query("set deadlock_timeout = '1min'; begin; lock table runs in exclusive mode");
  const written = keyed();
  await waits();
  // The write holds a row of this one: now each waits for the other, and it is the first to see that.
  await other.query("lock table idempotency_keys in exclusive mode; commit");
  expect(await written).toEqual({ kind: "accepted" });
});
