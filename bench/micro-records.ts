// What a table of many runs costs on Postgres, by the store's own operations: `node bench/micro-records.ts [millions…]`.
// It starts a Postgres of its own in a temporary directory; fsync is off there, so read ratios and sizes.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { packEnded } from "../src/store/runs/ended-runs.ts";
import { openStore } from "../src/store/store.ts";
import { startPostgres } from "../test/support/postgres-server.ts";
import { idAt, sampleEnd, sampleRun } from "../test/support/sample-run.ts";

const BATCH = 500;
const AT_ONCE = 3;
const APPS = 20;
const DAY_MS = 86_400_000;
const REMOVED = 100_000;
const SWEEP = 1_000;

const steps = process.argv.slice(2).map((text) => Number(text) * 1_000_000);
const dataDir = mkdtempSync(join(tmpdir(), "millrace-records-"));
const server = await startPostgres({ settings: ["shared_buffers=256MB", "max_wal_size=4GB"] });
const store = await openStore({ databaseUrl: server.url, dataDir });
const client = new Client({ connectionString: server.url });
await client.connect();
const startAt = Date.now() - 30 * DAY_MS;
let stored = 0;

/** Runs of a month, in the order in which they came. */
function batch(total: number): ReturnType<typeof packEnded> {
  const ends = Array.from({ length: BATCH }, (_, i) => {
    const at = startAt + ((stored + i) / total) * 30 * DAY_MS;
    const times = { createdAt: at, startedAt: at, completedAt: at + 2, updatedAt: at + 2 };
    return sampleEnd(sampleRun({ id: idAt(at), appNumber: 1 + ((stored + i) % APPS), ...times }));
  });
  stored += BATCH;
  return packEnded(ends);
}

async function insert(upTo: number, total: number): Promise<number> {
  const before = stored;
  const startedAt = performance.now();
  const work = async (): Promise<void> => {
    while (stored < upTo) await store.runs.insertFinished([batch(total)]);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return ((performance.now() - startedAt) * 1_000) / (stored - before);
}

async function median(count: number, work: (i: number) => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < count; i += 1) {
    const startedAt = performance.now();
    await work(i);
    times.push(performance.now() - startedAt);
  }
  return times.toSorted((a, b) => a - b)[count >> 1]!;
}

async function sizes(): Promise<string> {
  const { rows } = await client.query<{ name: string; mb: number }>(
    `select relname as name, (pg_relation_size(oid) / 1048576.0)::float8 as mb from pg_class
     where relname = 'runs' or oid in (select indexrelid from pg_index where indrelid = 'runs'::regclass)
     order by 2 desc limit 5`,
  );
  return rows.map(({ name, mb }) => `${name} ${mb.toFixed(0)} MB`).join(", ");
}

async function dead(): Promise<string> {
  const { rows } = await client.query<{ dead: number }>(
    "select n_dead_tup::float8 as dead from pg_stat_user_tables where relname = 'runs'",
  );
  return String(rows[0]?.dead);
}

const total = Math.max(...steps);
for (const step of steps) {
  const insertUs = await insert(step, total);
  await client.query("analyze runs");
  const pageMs = await median(
    50,
    async (i) => await store.runs.list({ appNumber: 1 + (i % APPS), limit: 50 }),
  );
  console.log(
    `${step / 1e6} M rows: insert ${insertUs.toFixed(1)} µs a run, newest page ${pageMs.toFixed(2)} ms; ${await sizes()}`,
  );
  const startedAt = performance.now();
  let removed = 0;
  while (removed < REMOVED) removed += await store.retention.removeOldest({ limit: SWEEP, keep: "nothing" });
  const removeUs = ((performance.now() - startedAt) * 1_000) / removed;
  const lateMs = await median(
    20,
    async () => await store.retention.removeOldest({ limit: 10, keep: "nothing" }),
  );
  console.log(
    `  remove ${removeUs.toFixed(1)} µs a run (${removed} in steps of ${SWEEP}), then 10 oldest ${lateMs.toFixed(2)} ms, dead ${await dead()}`,
  );
  const vacuumAt = performance.now();
  await client.query("vacuum (analyze) runs");
  console.log(`  vacuum ${((performance.now() - vacuumAt) / 1_000).toFixed(1)} s; ${await sizes()}`);
}
await client.end();
await store.close();
await server.stop();
rmSync(dataDir, { recursive: true, force: true });
