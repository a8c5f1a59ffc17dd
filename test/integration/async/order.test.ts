import { writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { uuidv7 } from "../../../src/kit/ids.ts";
import type { AcceptedRun } from "../../../src/store/runs.ts";
import { testDatabases } from "../../support/databases.ts";
import { sampleRun } from "../../support/sample-run.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import type { TestService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";
import { MAIN, ONE, Site, bundleFile, ended, ledger, letGo, submit } from "./site.ts";

const HOLD = { functionName: "hold" };
const numbers = (count: number): string[] => Array.from({ length: count }, (_, n) => String(n));

/** Puts runs of an app into the store as if they had been accepted there. */
async function fill({ service, apps }: TestService, app: string, count: number): Promise<void> {
  const live = apps.get(app);
  if (!live) throw new Error(`there is no ${app}`);
  const now = Date.now();
  for (let n = 0; n < count;) {
    const batch: AcceptedRun[] = [];
    for (; n < count && batch.length < 1000; n++) {
      const run = sampleRun({
        id: uuidv7(now - count + n),
        appNumber: live.app.number,
        versionId: live.version.id,
        isAsync: true,
        state: "queued",
        statusCode: null,
        startedAt: null,
        completedAt: null,
        replicaId: null,
        attempt: 1,
      });
      const input = Buffer.from(JSON.stringify({ n }));
      const payload = { input, result: null, contentType: null, isBare: false, sealedSecret: null };
      batch.push({ run, payload, owner: null });
    }
    await service.store.runs.accept(batch);
  }
}

test("an app's runs are executed in the order in which they came", async () => {
  const service = await testService({ app: { main: MAIN, toml: ONE } });
  for (let n = 0; n < 60; n++) await submit(service, "app", { n });
  await until("all have run", () => ledger(service, "app").length === 60);
  expect(ledger(service, "app")).toEqual(numbers(60));
});

test("runs that come while others wait go behind those", async () => {
  const service = await testService({ app: { main: MAIN, toml: ONE } });
  for (let n = 0; n < 10; n++) await submit(service, "app", { n }, HOLD);
  letGo(service, "app");
  for (let n = 10; n < 40; n++) await submit(service, "app", { n });
  await until("all have run", () => ledger(service, "app").length === 40);
  expect(ledger(service, "app")).toEqual(numbers(40));
});

test("an app with a long backlog does not hold up another", async () => {
  const service = await testService({ long: { main: MAIN, toml: ONE }, other: { main: MAIN, toml: ONE } });
  for (let n = 0; n < 200; n++) await submit(service, "long", { n }, HOLD);
  for (let n = 0; n < 5; n++) {
    const id = await submit(service, "other", { n });
    expect((await ended(service, "other", id)).status).toBe("success");
  }
  expect(ledger(service, "long")).toEqual(["0"]);
  letGo(service, "long");
  await until("the backlog is done", () => ledger(service, "long").length === 200);
});

verifies(
  ["async.callers-first", "async.fourth-slot"],
  "waiting callers go before the backlog, which gets every fourth slot",
  async () => {
    const service = await testService({ app: { main: MAIN, toml: ONE } });
    // The app is known to be quick: all of a small backlog is fetched ahead.
    for (let n = 0; n < 30; n++) await service.call("app", { n: "warm" });
    const first = service.call("app", { n: "first" }, HOLD);
    await until("it runs", () => ledger(service, "app").length === 31);
    for (let n = 0; n < 12; n++) await submit(service, "app", { n: "async" });
    const callers = Array.from({ length: 12 }, () => service.call("app", { n: "sync" }));
    await until("all wait", () => service.apps.get("app")?.pool.waiting === 24);
    letGo(service, "app");
    await Promise.all([first, ...callers]);
    await until("all have run", () => ledger(service, "app").length === 55);
    const [S, A] = ["sync", "async"];
    const turns = Array.from({ length: 4 }, () => [S, S, S, A]).flat();
    expect(ledger(service, "app").slice(31)).toEqual([...turns, ...Array.from({ length: 8 }, () => A)]);
  },
);

verifies("async.background", "runs that nobody waits for start an app from zero by themselves", async () => {
  const service = await testService({ app: { main: MAIN, toml: `${ONE}cooldown = 0\n` } });
  await ended(service, "app", await submit(service, "app", { n: 0 }));
  await until("the app is at zero", () => service.ready("app") === 0);
  await ended(service, "app", await submit(service, "app", { n: 1 }));
  expect(ledger(service, "app")).toEqual(["0", "1"]);
});

test("every free slot is filled while runs wait, though others go on for long", async () => {
  const toml = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 6\n";
  const service = await testService({ app: { main: MAIN, toml } });
  for (let n = 0; n < 7; n++) await submit(service, "app", { n }, { functionName: "hold_one" });
  await until("the slots are full", () => ledger(service, "app").length === 6);
  writeFileSync(bundleFile(service, "app", "go0"), "");
  await until("the freed slot is filled", () => ledger(service, "app").includes("6"));
  for (let n = 1; n < 7; n++) writeFileSync(bundleFile(service, "app", `go${n}`), "");
});

const databases = testDatabases();
const BACKLOGS = [
  ["sqlite", 10_500],
  ["postgres", 2_000],
] as const;

test.for(BACKLOGS)(
  "a long backlog is worked off, a small part of it in memory: %s, %d",
  async ([kind, count]) => {
    const { databaseUrl } = await databases.fresh(kind);
    const site = new Site({ app: { main: MAIN, toml: ONE } });
    const flags = databaseUrl === null ? {} : { databaseUrl };
    const before = await site.start({ flags });
    await fill(before, "app", count);
    await before.service.stop();
    const service = await site.start({ flags });
    let mostWaiting = 0;
    const isDone = (): boolean => {
      mostWaiting = Math.max(mostWaiting, service.apps.get("app")?.pool.waiting ?? 0);
      return ledger(service, "app").length === count;
    };
    await until("all have run", isDone);
    expect(mostWaiting).toBeLessThan(600);
    const order = ledger(service, "app").map(Number);
    expect(order.toSorted((a, b) => a - b)).toEqual(numbers(count).map(Number));
    // A quick call handed ahead of its turn may be taken back and lose some places, not more than are in memory.
    expect(order.filter((n, place) => Math.abs(n - place) >= 600)).toEqual([]);
  },
);
