import { execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { openStore } from "../../../src/store/store.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { testDatabases } from "../../support/databases.ts";
import { sampleEnd } from "../../support/sample-run.ts";

const databases = testDatabases();
const scratch = mkdtempSync(join(tmpdir(), "millrace-fault-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const STORE = new URL("../../../src/store/store.ts", import.meta.url).href;
const ENDED_RUNS = new URL("../../../src/store/runs/ended-runs.ts", import.meta.url).href;
const SAMPLE = new URL("../../support/sample-run.ts", import.meta.url).href;

/** Answers each message `n` with what became of storing n runs at once, and how many are stored then. */
const WRITER = `
  import { openStore } from "${STORE}";
  import { packEnded } from "${ENDED_RUNS}";
  import { sampleEnd } from "${SAMPLE}";
  const store = await openStore(JSON.parse(process.argv[2]));
  process.on("message", async (n) => {
    const write = store.runs.insertFinished([packEnded(Array.from({ length: n }, () => sampleEnd()))]);
    const outcome = await write.then(() => "stored", (error) => error.code + " <- " + error.cause?.message);
    process.send({ outcome, count: await store.runs.count({}) });
  });
  process.send("ready");
`;

test("when the disk takes no more nothing is stored, and it is again when the disk does", async () => {
  const script = join(scratch, "writer.mjs");
  writeFileSync(script, WRITER);
  const child = fork(script, [JSON.stringify(await databases.fresh("sqlite"))]);
  // Also when the test fails or runs out of time.
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child, "message");
  const store = async (runs: number) => {
    child.send(runs);
    return ((await once(child, "message")) as unknown[])[0];
  };
  // The kernel refuses to let any file of that process grow past this: a full disk, without filling one.
  const limitFileSize = (bytes: number | "unlimited") =>
    execFileSync("prlimit", [`--pid=${child.pid}`, `--fsize=${bytes}:unlimited`]);
  expect(await store(10)).toEqual({ outcome: "stored", count: 10 });
  limitFileSize(300_000);
  for (let attempt = 0; attempt < 3; attempt++) {
    expect(await store(5_000)).toEqual({
      outcome: expect.stringMatching(/^(?:storage_unavailable|in_doubt) <- SQLite: .*(full|I\/O)/i),
      count: 10,
    });
  }
  limitFileSize("unlimited");
  expect(await store(5_000)).toEqual({ outcome: "stored", count: 5_010 });
});

test("a write whose connection to Postgres is lost is in doubt, and the next call connects again", async () => {
  const { databaseUrl, dataDir } = await databases.fresh("postgres");
  const store = await openStore({ databaseUrl, dataDir });
  await store.meta.setIfAbsent({ key: "a", value: "b" });
  const other = new Client({ connectionString: databaseUrl! });
  await other.connect();
  // Also when the test fails: its database ends before a connection that nobody listens to.
  onTestFinished(async () => {
    await other.end();
    await store.close();
  });
  // Held by the other side, so that the store's write is surely under way when its connection goes.
  await other.query("begin; lock table runs in exclusive mode");
  const write = store.runs.insertFinished([packEnded([sampleEnd()])]);
  const refusal = write.catch((error: unknown) => error);
  const ended = await untilRow(
    other,
    "select pg_terminate_backend(pid) from pg_stat_activity" +
      " where wait_event_type = 'Lock' and datname = current_database()",
  );
  expect(ended).toEqual({ pg_terminate_backend: true });
  expect(await refusal).toMatchObject({ name: "AppError", code: "in_doubt" });
  await other.query("rollback");
  expect(await store.meta.get("a")).toBe("b");
  const end = sampleEnd();
  const { run } = end;
  await store.runs.insertFinished([packEnded([end])]);
  expect(await store.runs.find({ appNumber: run.appNumber, id: run.id })).toEqual(run);

  // Idle connections that go unnoticed must cost no call either.
  await other.query(
    "select pg_terminate_backend(pid) from pg_stat_activity" +
      " where application_name = 'millrace' and datname = current_database()",
  );
  await untilRow(
    other,
    "select 1 where not exists (select from pg_stat_activity" +
      " where application_name = 'millrace' and datname = current_database())",
  );
  // What their servers said at last has come by now, and is read before this turn of the loop is over.
  await new Promise((resolve) => setImmediate(resolve));
  expect(await store.meta.get("a")).toBe("b");
});

test("a Postgres that is not there is named at the start, without its password", async () => {
  const { dataDir } = await databases.fresh("sqlite");
  const databaseUrl = "postgres://someone:hunter2@127.0.0.1:1/none";
  const error: unknown = await openStore({ databaseUrl, dataDir }).catch((reason: unknown) => reason);
  expect(String(error)).toMatch(/cannot use the Postgres database 127\.0\.0\.1:1\/none: .*ECONNREFUSED/);
  expect(String(error)).not.toContain("hunter2");
});

/** Asks until there is a row; the test's own time limit ends it otherwise. */
async function untilRow(client: Client, query: string): Promise<unknown> {
  for (;;) {
    // Within a transaction the first look would be the only one.
    await client.query("select pg_stat_clear_snapshot()");
    const { rows } = await client.query<Record<string, unknown>>(query);
    if (rows.length > 0) return rows[0];
  }
}
