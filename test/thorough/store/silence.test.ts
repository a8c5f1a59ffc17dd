import { setImmediate } from "node:timers/promises";
import { sql } from "kysely";
import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { TICK_MS } from "../../../src/kit/breaker.ts";
import { Connections, targetOf } from "../../../src/store/postgres/connections.ts";
import { translateError } from "../../../src/store/postgres/errors.ts";
import { WRITE_LIMITS } from "../../../src/store/postgres/connection-kinds.ts";
import { openSqlite } from "../../../src/store/sqlite/open.ts";
import { openStore, type Store, storeOn } from "../../../src/store/store.ts";
import { operationNamed } from "../../../src/store/operations.ts";
import type { Lane } from "../../../src/store/operation.ts";
import { HandClock, SkippingClock } from "../../support/clocks.ts";
import { testDatabases } from "../../support/databases.ts";
import { type TestService, testService } from "../../support/service.ts";
import { SilentProxy } from "../../support/silent-proxy.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, ended, submit } from "../../integration/async/site.ts";

const databases = testDatabases();

const ECHO = "def run(n):\n    return n\n";

/** Asks the management API, as the owner. */
async function manage(test: TestService, path: string, body?: object) {
  const { baseUrl, owner } = test.service;
  const response = await fetch(baseUrl + path, {
    method: body ? "POST" : "GET",
    headers: { authorization: `Bearer ${owner.token}`, "content-type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text };
}

verifies(
  ["silence.breaker", "silence.sync", "silence.management", "silence.recovery"],
  "Postgres falls silent: sync calls go on, the rest is 503, and when it is back nothing that was accepted is lost",
  async () => {
    const { databaseUrl } = await databases.fresh("postgres");
    const proxy = await SilentProxy.open(databaseUrl!);
    const clock = new SkippingClock();
    const test = await testService({ app: { main: ECHO } }, { databaseUrl: proxy.url }, { clock });
    const { store, owner } = test.service;
    const accounts = `/v2/projects/${owner.projectId}/service-accounts`;
    const silence = async (lane: Lane) =>
      await until(`${lane} is silent`, () => {
        clock.skip(TICK_MS);
        return store.isSilent(lane);
      });
    const before = await submit(test, "app", { n: "before" });
    expect((await ended(test, "app", before)).status).toBe("success");

    proxy.fallSilent();
    const listing = manage(test, accounts);
    const inDoubt = test.call("app", { n: "in doubt" }, ASYNC);
    await silence("read");
    await silence("write");
    const listed = await listing;
    expect([listed.status, listed.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(JSON.parse(listed.text)).toMatchObject({
      code: "storage_unavailable",
      message: "The service cannot read its storage right now; try again shortly.",
    });
    // Long after the last judgement of its token.
    clock.skip(60_000);
    const answers = [];
    for (let n = 0; n < 20; n++) answers.push(await test.call("app", { n }));
    expect(answers.map(({ status, json }) => [status, json.result])).toEqual(answers.map((_, n) => [200, n]));
    expect((await test.call("app", { n: "refused" }, ASYNC)).json).toMatchObject({
      code: "storage_unavailable",
    });
    expect((await manage(test, accounts, { name: "new" })).status).toBe(503);
    const ready = await manage(test, "/readyz");
    expect([ready.status, ready.text]).toEqual([503, '{"status":"the database does not answer"}']);
    const metrics = await manage(test, "/metrics");
    expect(metrics.text).toContain('millrace_storage_silent{lane="write"} 1');
    expect(metrics.text).toMatch(/^millrace_records_waiting [1-9]/m);
    // What was asked of it just before: that nobody knows is said, with the run's id.
    await until("it is known that nothing is known", () => {
      clock.skip(TICK_MS);
      return Promise.race([inDoubt.then(() => true), setImmediate(false)]);
    });
    const doubted = await inDoubt;
    expect([doubted.status, doubted.json.code]).toEqual([503, "in_doubt"]);

    proxy.speak();
    await until("it is heard again", () => !store.isSilent("read") && !store.isSilent("write"));
    expect((await manage(test, accounts, { name: "new" })).status).toBe(200);
    // Its lease has passed meanwhile: it asks first which apps are still its own.
    await until("it is ready", async () => (await manage(test, "/readyz")).status === 200);
    await test.service.settle();
    for (const { json } of answers) {
      expect((await test.ofRun("app", json.run_id)).json).toMatchObject({ status: "success" });
    }
    expect((await ended(test, "app", doubted.json.request_id)).status).toBe("failure");
    const after = await submit(test, "app", { n: "after" });
    expect((await ended(test, "app", after)).status).toBe("success");
  },
);

verifies(
  "silence.breaker",
  "SQLite on a disk that hangs at writing: reads go on, writes are refused, what was given up is done when it is back",
  async () => {
    const { dataDir } = await databases.fresh("sqlite");
    const backend = await openSqlite(dataDir);
    const disk = Promise.withResolvers<void>();
    const clock = new HandClock();
    const changes: [Lane, boolean][] = [];
    const store = storeOn(
      {
        ...backend,
        run: async (name, packed) => {
          if (operationNamed(name).mode !== "read") await disk.promise;
          return await backend.run(name, packed);
        },
        probe: async (lane) => {
          if (lane === "write") await disk.promise;
          return await backend.probe(lane);
        },
      },
      { kind: "sqlite", clock, onSilence: (lane, isSilent) => changes.push([lane, isSilent]) },
    );
    onTestFinished(() => store.close());
    const write = store.meta.setIfAbsent({ key: "a", value: "1" }).catch((error: unknown) => error);
    while (!store.isSilent("write")) {
      clock.advance(TICK_MS);
      await setImmediate();
      await setImmediate();
    }
    expect(clock.elapsedMs).toBeLessThan(5_000);
    expect(await write).toMatchObject({ code: "in_doubt" });
    expect(await store.meta.get("a")).toBe(null);
    await expect(store.meta.setIfAbsent({ key: "b", value: "1" })).rejects.toMatchObject({
      code: "storage_unavailable",
    });
    expect([store.isSilent("read"), changes]).toEqual([false, [["write", true]]]);
    disk.resolve();
    await until("it is heard again", () => !store.isSilent("write"));
    expect(changes).toEqual([
      ["write", true],
      ["write", false],
    ]);
    expect(await store.meta.setIfAbsent({ key: "a", value: "2" })).toBe("1");
    expect(await store.meta.setIfAbsent({ key: "b", value: "2" })).toBe("2");
  },
);

test("slow writes on Postgres, as many as there may be, keep no read waiting", async () => {
  const database = await databases.fresh("postgres");
  const store = await openStore(database);
  const other = new Client({ connectionString: database.databaseUrl! });
  await other.connect();
  onTestFinished(async () => {
    await other.end();
    await store.close();
  });
  await other.query("begin; lock table projects in exclusive mode");
  const writes = Array.from({ length: WRITE_LIMITS.manage.max }, (_, n) =>
    store.projects.insert({ id: `p-${n}`, name: "slow", createdAt: 1 }),
  );
  const stored = Promise.allSettled(writes);
  await until("all of them wait", async () => {
    const { rows } = await other.query("select 1 from pg_locks where not granted");
    return rows.length === writes.length;
  });
  expect(await store.meta.get("none")).toBe(null);
  await other.query("rollback");
  expect((await stored).map(({ status }) => status)).toEqual(writes.map(() => "fulfilled"));
});

test("connections that were given up are dropped with what waits on them, and the next call makes a new one", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const proxy = await SilentProxy.open(databaseUrl!);
  const connections = new Connections(targetOf(proxy.url), { max: 1, waitMs: 60_000, statementMs: 60_000 });
  onTestFinished(() => connections.close());
  const ask = async () => (await sql`select 1 as one`.execute(connections.db)).rows;
  expect(await ask()).toEqual([{ one: 1 }]);
  proxy.fallSilent();
  const lost = ask().catch((error: unknown) => error);
  // By then it has the one connection there may be.
  for (let turn = 0; turn < 5; turn++) await setImmediate();
  proxy.speak();
  connections.abandon();
  expect(await ask()).toEqual([{ one: 1 }]);
  expect(String(await lost)).toMatch(/Connection terminated/);
});

verifies(
  "silence.recovery",
  "connections that come after they were given up are dropped too, however often",
  async () => {
    const { databaseUrl } = await databases.fresh("postgres");
    const proxy = await SilentProxy.open(databaseUrl!);
    const connections = new Connections(targetOf(proxy.url), {
      max: 5,
      waitMs: 170_000,
      statementMs: 60_000,
    });
    onTestFinished(() => connections.close());
    const ask = async () => (await sql`select 1 as one`.execute(connections.db)).rows;
    const write = async () =>
      await connections.db
        .transaction()
        .execute(async (transaction) => await sql`select 1`.execute(transaction));
    for (let freeze = 0; freeze < 3; freeze++) {
      proxy.hold();
      const calls = Promise.allSettled([ask(), write(), ask(), write(), ask()]);
      await until("all are being connected", () => proxy.count === 5);
      connections.abandon();
      proxy.letThrough();
      for (const call of await calls) {
        expect(call).toMatchObject({
          status: "rejected",
          reason: { message: expect.stringMatching(/given up/) },
        });
        // Of a write it is known that it was not done.
        expect(translateError((call as PromiseRejectedResult).reason, "write")).toMatchObject({
          code: "storage_unavailable",
        });
      }
      await until("none is left", () => proxy.count === 0);
    }
    expect(await ask()).toEqual([{ one: 1 }]);
    expect(proxy.count).toBe(1);
  },
);

verifies(
  "silence.drained",
  "a service that is stopped while Postgres says nothing answers the calls that wait to be stored",
  async () => {
    const { databaseUrl } = await databases.fresh("postgres");
    const proxy = await SilentProxy.open(databaseUrl!);
    const clock = new SkippingClock();
    const asked = Promise.withResolvers<void>();
    const aroundStore = (store: Store): Store => {
      const accept: Store["runs"]["accept"] = (batch) => {
        asked.resolve();
        return store.runs.accept(batch);
      };
      return { ...store, runs: { ...store.runs, accept } };
    };
    const test = await testService(
      { app: { main: ECHO } },
      { databaseUrl: proxy.url },
      { clock, aroundStore },
    );
    expect((await test.call("app", { n: 1 })).status).toBe(200);
    await test.service.settle();
    proxy.fallSilent();
    const call = test.call("app", { n: 2 }, ASYNC);
    await asked.promise;
    const stopped = test.service.stop(0);
    const { status, json } = await call;
    expect([status, json.code]).toEqual([503, "in_doubt"]);
    expect(test.service.unanswered()).toBe(0);
    let isStopped = false;
    void stopped.finally(() => (isStopped = true));
    await until("it has stopped", () => {
      clock.skip(TICK_MS);
      return isStopped;
    });
  },
);
