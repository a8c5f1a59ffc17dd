import { writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { type TestService, WITHOUT_WALLS } from "../../support/service.ts";
import { uuidv7 } from "../../support/ids.ts";
import type { AcceptedRun } from "../../../src/store/runs/accepted-runs.ts";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { sampleRun } from "../../support/sample-run.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { MAIN, ONE, Site, bundleFile, ended, ledger, letGo, submit } from "../../integration/async/site.ts";

const HOLD = { functionName: "hold" };
const APP = { main: MAIN, toml: ONE };
const service = sharedService({}, WITHOUT_WALLS);
const numbers = (count: number): string[] => Array.from({ length: count }, (_, n) => String(n));

/** Puts runs of an app into the store as if they had been accepted there. */
async function fill({ service, apps }: TestService, app: string, count: number): Promise<void> {
  const live = apps.get(app);
  if (!live) throw new Error(`there is no ${app}`);
  const now = Date.now();
  // Of the same caller as those that wait already: callers take turns.
  const [waiting] = await service.store.runs.list({ appNumber: live.app.number, limit: 1 });
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
        accountId: waiting?.accountId ?? null,
      });
      const input = Buffer.from(JSON.stringify({ n }));
      const payload = { input, result: null, contentType: null, isBare: false, sealedSecret: null };
      batch.push({ run, payload, owner: null });
    }
    await service.store.runs.accept(batch);
  }
}

describe("an app's runs", () => {
  test("are executed in the order in which they came", async () => {
    const app = await service().own(APP);
    for (let n = 0; n < 60; n++) await submit(service(), app, { n });
    await until("all have run", () => ledger(service(), app).length === 60);
    expect(ledger(service(), app)).toEqual(numbers(60));
  });

  test("that come while others wait go behind those", async () => {
    const app = await service().own(APP);
    for (let n = 0; n < 10; n++) await submit(service(), app, { n }, HOLD);
    letGo(service(), app);
    for (let n = 10; n < 40; n++) await submit(service(), app, { n });
    await until("all have run", () => ledger(service(), app).length === 40);
    expect(ledger(service(), app)).toEqual(numbers(40));
  });

  test("however many, do not hold up another app's", async () => {
    const [long, other] = [await service().own(APP), await service().own(APP)];
    await submit(service(), long, { n: 0 }, HOLD);
    await Promise.all(
      numbers(40)
        .slice(1)
        .map((n) => submit(service(), long, { n }, HOLD)),
    );
    for (let n = 0; n < 5; n++) {
      const id = await submit(service(), other, { n });
      expect((await ended(service(), other, id)).status).toBe("success");
    }
    expect(ledger(service(), long)).toEqual(["0"]);
    letGo(service(), long);
    await until("the backlog is done", () => ledger(service(), long).length === 40);
  });

  verifies("async.background", "start it from zero by themselves, though nobody waits for them", async () => {
    const app = await service().own({ ...APP, toml: `${ONE}cooldown = 0\n` });
    await ended(service(), app, await submit(service(), app, { n: 0 }));
    await until("the app is at zero", () => service().ready(app) === 0);
    await ended(service(), app, await submit(service(), app, { n: 1 }));
    expect(ledger(service(), app)).toEqual(["0", "1"]);
  });

  test("fill every free slot while some wait, though others go on for long", async () => {
    const toml = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 6\n";
    const app = await service().own({ main: MAIN, toml });
    for (let n = 0; n < 7; n++) await submit(service(), app, { n }, { functionName: "hold_one" });
    await until("the slots are full", () => ledger(service(), app).length === 6);
    writeFileSync(bundleFile(service(), app, "go0"), "");
    await until("the freed slot is filled", () => ledger(service(), app).includes("6"));
    for (let n = 1; n < 7; n++) writeFileSync(bundleFile(service(), app, `go${n}`), "");
  });

  test("that a version accepted are executed by it, when another has taken its place", async () => {
    const app = await service().own(APP);
    const ids: string[] = [];
    for (let n = 0; n < 4; n++) ids.push(await submit(service(), app, { n }, HOLD));
    await until("one runs", () => ledger(service(), app).length === 1);
    const old = service().apps.get(app)!;
    const main = MAIN.replaceAll("return n\n", "return [n, 'new']\n");
    await service().deploy(app, { main, toml: ONE });
    letGo(service(), app);
    ids.push(await submit(service(), app, { n: 4 }, HOLD));
    writeFileSync(path.join(service().bundleDir(old), "go"), "");
    for (const [n, id] of ids.entries()) {
      const result = n < 4 ? n : [n, "new"];
      expect(await ended(service(), app, id)).toMatchObject({ result, attempt: 1 });
    }
  });
});

verifies(
  ["async.callers-first", "async.fourth-slot"],
  "waiting callers go before the backlog, which gets every fourth slot",
  async () => {
    const app = await service().own(APP);
    const { pool } = service().apps.get(app)!;
    // Once the app is known to be quick, all of a small backlog is fetched ahead.
    await until("there is room for it", async () => {
      await service().call(app, { n: "warm" });
      return pool.slots.backlogRoom > 12;
    });
    const before = ledger(service(), app).length;
    const first = service().call(app, { n: "first" }, HOLD);
    await until("it runs", () => ledger(service(), app).length === before + 1);
    for (let n = 0; n < 12; n++) await submit(service(), app, { n: "async" });
    const callers = Array.from({ length: 12 }, () => service().call(app, { n: "sync" }));
    await until("all wait", () => pool.slots.waiting === 24);
    letGo(service(), app);
    await Promise.all([first, ...callers]);
    await until("all have run", () => ledger(service(), app).length === before + 25);
    const [S, A] = ["sync", "async"];
    const turns = Array.from({ length: 4 }, () => [S, S, S, A]).flat();
    const order = ledger(service(), app).slice(before + 1);
    expect(order).toEqual([...turns, ...Array.from({ length: 8 }, () => A)]);
  },
);

const databases = testDatabases();
const BACKLOG = 1_500;

test.for(triedKinds("sqlite"))(
  "a long backlog is worked off, a small part of it in memory: %s",
  async (kind) => {
    const { databaseUrl } = await databases.fresh(kind);
    const on = databaseUrl === null ? service() : await new Site({}).start({ flags: { databaseUrl } });
    const app = await on.own(APP);
    await submit(on, app, { n: -1 }, HOLD);
    await until("the only slot is taken", () => ledger(on, app).length === 1);
    // As long as there is room in memory a run goes straight there, and would pass those that are filled in behind it.
    const { pool } = on.apps.get(app)!;
    let ahead = 1;
    for (; pool.slots.backlogRoom > 0; ahead++) await submit(on, app, { n: -1 });
    await fill(on, app, BACKLOG);
    // The service learns of them by the one that has to wait behind them.
    await submit(on, app, { n: BACKLOG });
    letGo(on, app);
    let mostWaiting = 0;
    const isDone = (): boolean => {
      mostWaiting = Math.max(mostWaiting, pool.slots.waiting);
      return ledger(on, app).length === ahead + BACKLOG + 1;
    };
    await until("all have run", isDone);
    expect(mostWaiting).toBeLessThan(600);
    const order = ledger(on, app)
      .map(Number)
      .filter((n) => n >= 0);
    expect(order.toSorted((a, b) => a - b)).toEqual(numbers(BACKLOG + 1).map(Number));
    // A quick call handed ahead of its turn may be taken back and lose some places, not more than are in memory.
    expect(order.filter((n, place) => Math.abs(n - place) >= 600)).toEqual([]);
  },
);
