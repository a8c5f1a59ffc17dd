import { createHash } from "node:crypto";
import { Client } from "pg";
import { expect, onTestFinished } from "vitest";
import { WRITE_LIMITS } from "../../../src/store/postgres/connection-kinds.ts";
import { openStore } from "../../../src/store/store.ts";
import { testDatabases } from "../../support/databases.ts";
import { queuedRun, samplePayload } from "../../support/sample-run.ts";
import { until } from "../../support/until.ts";
import { signOfLife } from "../../support/leases.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const OWNER = "first";
const LEASE_MS = 60_000;

/** A store, and somebody else on its database who locks a table of it. */
async function locked(lock: string) {
  const database = await databases.fresh("postgres");
  const store = await openStore(database);
  const other = new Client({ connectionString: database.databaseUrl! });
  await other.connect();
  onTestFinished(async () => {
    await other.end();
    await store.close();
  });
  const createdAt = Date.now();
  await store.projects.insert({ id: "p-kinds", name: "test", createdAt });
  const { number } = await store.apps.insertOrFind({ projectId: "p-kinds", name: "app", createdAt });
  const accept = async (owner: string | null, functionName = "run") => {
    const state = owner === null ? "queued" : "running";
    const run = queuedRun({ appNumber: number, functionName, state });
    await store.runs.accept([{ run, payload: samplePayload(), owner }]);
    return run;
  };
  const running = await accept(OWNER);
  await signOfLife(store, OWNER, LEASE_MS);
  await other.query(`begin; lock table ${lock}`);
  const keyed = (key: string) =>
    store.runs.acceptKeyed({
      accepted: {
        run: queuedRun({ appNumber: number, state: "running" }),
        payload: samplePayload(),
        owner: OWNER,
      },
      keyHash: createHash("sha256").update(key).digest(),
      fingerprint: createHash("sha256").update("same").digest(),
      now: createdAt,
      keptMs: 1_000,
    });
  const waiting = async () => {
    const { rows } = await other.query(
      `select 1 from pg_locks join pg_database on pg_database.oid = pg_locks.database
       where not granted and datname = current_database()`,
    );
    return rows.length;
  };
  return { store, other, accept, running, keyed, waiting };
}

verifies(
  ["lease.apart", "reads.in-time"],
  "calls that wait for a locked table take connections of no other kind, and are given up",
  async () => {
    const { store, other, accept, running, keyed, waiting } = await locked("idempotency_keys in share mode");
    const ten = async () => {
      const settled = await Promise.allSettled(Array.from({ length: 10 }, (_, n) => keyed(`${n}`)));
      hasSettled = true;
      return settled;
    };
    let hasSettled = false;
    let calls = ten();
    await until("as many wait as may", async () => {
      // On a machine that is slow enough they are given up before anybody looks.
      if (hasSettled) calls = ten();
      hasSettled = false;
      return (await waiting()) === WRITE_LIMITS.keyed.max;
    });
    // All that another kind does is done beside them.
    expect(await signOfLife(store, OWNER, LEASE_MS)).toBeGreaterThan(0);
    const { appNumber } = await accept(null);
    const claimed = await store.claims.claim({ appNumber, limit: 1, maxBytes: 1, owner: OWNER });
    expect(claimed.runs).toHaveLength(1);
    const end = { run: { ...running, state: "success" as const }, fence: 1, owner: OWNER };
    expect(await store.claims.finish([{ ...end, result: null, part: null, delivery: null }])).toEqual([
      running.id,
    ]);
    expect(await store.projects.insert({ id: "p-other", name: "other", createdAt: 1 })).toBe(true);
    // Nobody unlocks it: they are refused all the same; on a busy machine the service gives up before the database does.
    const isRefused = expect.stringMatching(/^(storage_unavailable|in_doubt)$/);
    for (const call of await calls)
      expect(call).toMatchObject({ status: "rejected", reason: { code: isRefused } });
    await other.query("rollback");
    expect(await keyed("0")).toEqual({ kind: "accepted" });
  },
);

verifies(
  "lease.apart",
  "a call or a claim that waits for a table does not hold its service's lease meanwhile",
  async () => {
    const { store, other, accept, keyed, waiting } = await locked("payloads in exclusive mode");
    const call = keyed("a").catch((error: unknown) => error);
    await until("it waits", async () => (await waiting()) === 1);
    await other.query("select 1 from owners where id = $1 for update nowait", [OWNER]);
    await other.query("rollback");
    await call;

    const { appNumber } = await accept(null);
    await other.query("begin; lock table runs in share mode");
    const claim = store.claims.claim({ appNumber, limit: 1, maxBytes: 1, owner: OWNER }).catch(() => null);
    await until("it waits", async () => (await waiting()) === 1);
    await other.query("select 1 from owners where id = $1 for update nowait", [OWNER]);
    await other.query("rollback");
    await claim;
  },
);

verifies(
  "faults.postgres.readyz",
  "while the table of runs is locked the store takes no writes, though every other table does",
  async () => {
    const { store, other, accept } = await locked("runs in share mode");
    await expect(accept(null)).rejects.toMatchObject({ code: expect.stringMatching(/^(in_doubt|storage_)/) });
    expect(await store.takesWrites()).toBe(false);
    await other.query("rollback");
    await until("it takes writes again", async () => await store.takesWrites());
    await accept(null);
  },
);
