import { connect } from "node:net";
import { expect, test, vi } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import type { Answer, CallOptions, TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, MAIN, ONE, Site, ended, ledger, letGo } from "./site.ts";

const databases = testDatabases();
const DAY_MS = 24 * 3600 * 1000;

async function keyed(
  on: TestService,
  key: string,
  body: unknown,
  options: CallOptions = {},
): Promise<Answer> {
  return await on.call("app", body, { ...options, headers: { "idempotency-key": key } });
}

for (const kind of DATABASE_KINDS) {
  verifies(
    ["idempotency.unfinished", "idempotency.async"],
    `a hundred calls at once with one key execute once: ${kind}`,
    async () => {
      const { databaseUrl } = await databases.fresh(kind);
      const site = new Site({ app: { main: MAIN, toml: ONE } });
      const test = await site.start({ flags: databaseUrl === null ? {} : { databaseUrl } });
      const hundred = async (key: string, body: unknown, options: CallOptions): Promise<Answer[]> =>
        await Promise.all(Array.from({ length: 100 }, () => keyed(test, key, body, options)));
      const calls = hundred("sync", { n: "sync" }, { functionName: "hold" });
      await until("one runs", () => ledger(test, "app").length === 1);
      letGo(test, "app");
      const statuses = (await calls).map(({ status, headers }) => [
        status,
        headers.get("idempotent-replayed"),
      ]);
      expect(statuses.filter(([status, replayed]) => status === 200 && replayed === null)).toHaveLength(1);
      expect(statuses.filter(([status]) => status !== 200 && status !== 409)).toEqual([]);
      const accepted = await hundred("async", { n: "async" }, ASYNC);
      expect(new Set(accepted.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
      await ended(test, "app", accepted[0]?.json.run_id);
      expect(ledger(test, "app")).toEqual(["sync", "async"]);
    },
  );
}

verifies("idempotency.key", "a key counts for 24 hours", async () => {
  const test = await new Site({ app: { main: MAIN, toml: ONE } }).start();
  const now = vi.spyOn(systemClock, "now");
  const startedAt = Date.now();
  const at = async (ms: number): Promise<string | null> => {
    now.mockReturnValue(startedAt + ms);
    const answer = await keyed(test, "k", { n: 1 }, ASYNC);
    expect(answer.status).toBe(202);
    return answer.headers.get("idempotent-replayed");
  };
  try {
    expect(await at(0)).toBe(null);
    expect(await at(DAY_MS - 1)).toBe("true");
    expect(await at(DAY_MS)).toBe(null);
    expect(await at(DAY_MS + 1)).toBe("true");
  } finally {
    now.mockRestore();
  }
  await until("both have run", () => ledger(test, "app").length === 2);
});

verifies("idempotency.finished", "a call that was refused before it began leaves its key free", async () => {
  const site = new Site({ app: { main: MAIN, toml: `${ONE}max_queue = 1\n` } });
  const test = await site.start({ flags: { shutdownGrace: "0.2s" } });
  const held = test.call("app", { n: "held" }, { functionName: "hold" });
  await until("one runs", () => ledger(test, "app").length === 1);
  const waiting = test.call("app", { n: "waiting" });
  await until("one waits", () => test.apps.get("app")?.pool.waiting === 1);
  const refused = await keyed(test, "full", { n: "full" });
  expect([refused.status, refused.json.code]).toEqual([503, "queue_full"]);
  letGo(test, "app");
  await Promise.all([held, waiting]);
  await until("the key is free", async () => (await keyed(test, "full", { n: "full" })).status === 200);
  expect(ledger(test, "app").filter((line) => line === "full")).toHaveLength(1);
});

verifies("idempotency.sync-committed", "a call that a stop refused is new to the next service", async () => {
  const site = new Site({ app: { main: MAIN, toml: ONE } });
  const first = await site.start({ flags: { shutdownGrace: "0.2s" } });
  const held = first.call("app", { n: "held" }, { functionName: "hold" });
  await until("one runs", () => ledger(first, "app").length === 1);
  const waiting = keyed(first, "k", { n: "waiting" });
  await until("one waits", () => first.apps.get("app")?.pool.waiting === 1);
  await first.service.stop();
  expect([(await held).status, (await waiting).status]).toEqual([503, 503]);
  const second = await site.start();
  const again = await keyed(second, "k", { n: "waiting" });
  expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([200, null]);
  expect(ledger(second, "app")).toEqual(["held", "waiting"]);
});

verifies("idempotency.sync-committed", "a keyed run is in the store before it starts", async () => {
  const test = await new Site({ app: { main: MAIN, toml: ONE } }).start();
  const call = keyed(test, "k", { n: 1 }, { functionName: "hold" });
  await until("it runs", () => ledger(test, "app").length === 1);
  const { app } = test.apps.get("app")!;
  const [stored] = await test.service.store.runs.list({ appNumber: app.number, limit: 1 });
  expect(stored).toMatchObject({ state: "running", isAsync: false, statusCode: null });
  letGo(test, "app");
  const answer = await call;
  expect(answer.headers.get("x-request-id")).toBe(stored?.id);
  expect(await ended(test, "app", stored?.id ?? "")).toMatchObject({ status: "success", async: false });
});

test("a caller who leaves while the store is asked does not leave a stream behind", async () => {
  const gate = Promise.withResolvers<void>();
  let asked = 0;
  const service = await new Site({ app: { main: MAIN, toml: ONE } }).start({
    aroundStore: (store) => ({
      ...store,
      runs: {
        ...store.runs,
        acceptKeyed: async (accepted) => {
          asked += 1;
          await gate.promise;
          return await store.runs.acceptKeyed(accepted);
        },
      },
    }),
  });
  await service.call("app", { n: "warm" });
  const { hostname, port, pathname } = new URL(service.url("app", "tick"));
  const head = [
    `POST ${pathname} HTTP/1.1`,
    "Host: x",
    `Authorization: Bearer ${service.service.owner.token}`,
  ];
  const socket = connect(Number(port), hostname);
  socket.write([...head, "Idempotency-Key: k", "Content-Length: 0", "", ""].join("\r\n"));
  await until("the store is asked", () => asked === 1);
  socket.destroy();
  // The service knows of it when a call that came later is answered.
  await service.call("app", { n: "after" });
  gate.resolve();
  await until("the run has ended", async () => {
    const { app } = service.apps.get("app")!;
    const rows = await service.service.store.runs.list({ appNumber: app.number, limit: 10 });
    return rows.some(({ functionName, state }) => functionName === "tick" && state === "cancelled");
  });
});
