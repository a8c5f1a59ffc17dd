import { connect } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Store } from "../../../src/store/store.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { testDatabases } from "../../support/databases.ts";
import type { Answer, CallOptions, TestService } from "../../support/service.ts";
import { testService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, MAIN, ONE, Site, ended, ledger, letGo } from "../../integration/async/site.ts";

const databases = testDatabases();
const DAY_MS = 24 * 3600 * 1000;

/** Stands in the way of keyed runs while a test wants it to. */
let gate: Promise<void> | null = null;
let asked = 0;
const clock = new SkippingClock();
const aroundStore = (store: Store): Store => ({
  ...store,
  runs: {
    ...store.runs,
    acceptKeyed: async (accepted) => {
      asked += 1;
      await gate;
      return await store.runs.acceptKeyed(accepted);
    },
  },
});
const service = sharedService({}, WITHOUT_WALLS, { clock, aroundStore });

async function keyed(
  on: TestService,
  app: string,
  key: string,
  body: unknown,
  options: CallOptions = {},
): Promise<Answer> {
  return await on.call(app, body, { ...options, headers: { "idempotency-key": key } });
}

/** A hundred calls at once with a key execute once, sync and async. */
async function expectOnce(on: TestService): Promise<void> {
  const app = await on.own({ main: MAIN, toml: ONE });
  const hundred = async (key: string, body: unknown, options: CallOptions): Promise<Answer[]> =>
    await Promise.all(Array.from({ length: 100 }, () => keyed(on, app, key, body, options)));
  const calls = hundred("sync", { n: "sync" }, { functionName: "hold" });
  await until("one runs", () => ledger(on, app).length === 1);
  letGo(on, app);
  const statuses = (await calls).map(({ status, headers }) => [status, headers.get("idempotent-replayed")]);
  expect(statuses.filter(([status, replayed]) => status === 200 && replayed === null)).toHaveLength(1);
  // On a busy machine some wait too long for the database.
  const isRefused = (status: unknown): boolean => status === 409 || status === 503;
  expect(statuses.filter(([status]) => status !== 200 && !isRefused(status))).toEqual([]);
  const answers = await hundred("async", { n: "async" }, ASYNC);
  const accepted = answers.filter(({ status }) => status !== 503);
  expect(new Set(accepted.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
  await ended(on, app, accepted[0]?.json.run_id);
  expect(ledger(on, app)).toEqual(["sync", "async"]);
}

verifies(
  ["idempotency.unfinished", "idempotency.async"],
  "a hundred calls at once with one key execute once: sqlite",
  () => expectOnce(service()),
);

verifies(
  ["idempotency.unfinished", "idempotency.async"],
  "a hundred calls at once with one key execute once: postgres",
  async () => {
    const { databaseUrl } = await databases.fresh("postgres");
    await expectOnce(await new Site({}).start({ flags: { databaseUrl } }));
  },
);

verifies(
  ["idempotency.key", "clock.steps"],
  "a key counts for 24 hours, whatever the date is set to",
  async () => {
    // Nobody else's hours pass.
    const own = new SkippingClock();
    const test = await testService({ app: { main: MAIN, toml: ONE } }, {}, { clock: own });
    const now = vi.spyOn(own, "now");
    onTestFinished(() => now.mockRestore());
    const again = async (dateMs: number): Promise<string | null> => {
      now.mockReturnValue(dateMs);
      const answer = await keyed(test, "app", "k", { n: 1 }, ASYNC);
      expect(answer.status).toBe(202);
      return answer.headers.get("idempotent-replayed");
    };
    const date = Date.now();
    expect(await again(date)).toBe(null);
    for (const days of [1, 400, -1, -20_000]) expect(await again(date + days * DAY_MS)).toBe("true");
    await until("it has run", () => ledger(test, "app").length === 1);
    await test.service.settle();
    own.skip(DAY_MS - 3600 * 1000);
    expect(await again(date)).toBe("true");
    own.skip(3600 * 1000);
    expect(await again(date)).toBe(null);
    expect(await again(date)).toBe("true");
    await until("both have run", () => ledger(test, "app").length === 2);
  },
);

verifies("idempotency.finished", "a call that was refused before it began leaves its key free", async () => {
  const test = service();
  const app = await test.own({ main: MAIN, toml: `${ONE}max_queue = 1\n` });
  const held = test.call(app, { n: "held" }, { functionName: "hold" });
  await until("one runs", () => ledger(test, app).length === 1);
  const waiting = test.call(app, { n: "waiting" });
  await until("one waits", () => test.apps.get(app)?.pool.slots.waiting === 1);
  const refused = await keyed(test, app, "full", { n: "full" });
  expect([refused.status, refused.json.code]).toEqual([503, "queue_full"]);
  letGo(test, app);
  await Promise.all([held, waiting]);
  await until("the key is free", async () => (await keyed(test, app, "full", { n: "full" })).status === 200);
  expect(ledger(test, app).filter((line) => line === "full")).toHaveLength(1);
});

verifies("idempotency.sync-committed", "a call that a stop refused is new to the next service", async () => {
  const site = new Site({ app: { main: MAIN, toml: ONE } });
  const first = await site.start({ flags: { shutdownGrace: "0.2s" } });
  const held = first.call("app", { n: "held" }, { functionName: "hold" });
  await until("one runs", () => ledger(first, "app").length === 1);
  const waiting = keyed(first, "app", "k", { n: "waiting" });
  await until("one waits", () => first.apps.get("app")?.pool.slots.waiting === 1);
  await first.service.stop();
  expect([(await held).status, (await waiting).status]).toEqual([503, 503]);
  const second = await site.start();
  const again = await keyed(second, "app", "k", { n: "waiting" });
  expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([200, null]);
  expect(ledger(second, "app")).toEqual(["held", "waiting"]);
});

verifies("idempotency.sync-committed", "a keyed run is in the store before it starts", async () => {
  const test = service();
  const name = await test.own({ main: MAIN, toml: ONE });
  const call = keyed(test, name, "k", { n: 1 }, { functionName: "hold" });
  await until("it runs", () => ledger(test, name).length === 1);
  const { app } = test.apps.get(name)!;
  const [stored] = await test.service.store.runs.list({ appNumber: app.number, limit: 1 });
  expect(stored).toMatchObject({ state: "running", isAsync: false, statusCode: null });
  letGo(test, name);
  const answer = await call;
  expect(answer.headers.get("x-request-id")).toBe(stored?.id);
  expect(await ended(test, name, stored?.id ?? "")).toMatchObject({ status: "success", async: false });
});

test("a caller who leaves while the store is asked does not leave a stream behind", async () => {
  const on = service();
  const name = await on.own({ main: MAIN, toml: ONE });
  await on.call(name, { n: "warm" });
  const opened = Promise.withResolvers<void>();
  gate = opened.promise;
  const before = asked;
  const { hostname, port, pathname } = new URL(on.url(name, "tick"));
  const head = [`POST ${pathname} HTTP/1.1`, "Host: x", `Authorization: Bearer ${on.service.owner.token}`];
  const socket = connect(Number(port), hostname);
  socket.write([...head, "Idempotency-Key: k", "Content-Length: 0", "", ""].join("\r\n"));
  await until("the store is asked", () => asked === before + 1);
  socket.destroy();
  // The service knows of it when a call that came later is answered.
  await on.call(name, { n: "after" });
  opened.resolve();
  gate = null;
  await until("the run has ended", async () => {
    const { app } = on.apps.get(name)!;
    const rows = await on.service.store.runs.list({ appNumber: app.number, limit: 10 });
    return rows.some(({ functionName, state }) => functionName === "tick" && state === "cancelled");
  });
});
