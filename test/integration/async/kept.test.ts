import { describe, expect, test } from "vitest";
import { type TestService, WITHOUT_WALLS } from "../../support/service.ts";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { MAIN, ONE, cancel, ended, ledger, letGo, look, submit } from "./site.ts";

const databases = testDatabases();
const keeping = (what: string): { main: string; toml: string } => ({
  main: MAIN,
  toml: `${ONE}[deployment]\nrecord_payloads = "${what}"\n`,
});

/** What stands in the store of a run beside its record. */
async function stored({ service, apps }: TestService, app: string, id: string): Promise<unknown[]> {
  const key = { appNumber: apps.get(app)?.app.number ?? 0, id };
  const payload = await service.store.payloads.find(key);
  const part = await service.store.transcripts.next({ ...key, after: 0 });
  const bytes = [payload?.input, payload?.result, part?.bytes].map((found) => found?.length ?? 0);
  return bytes.map((length) => length > 0);
}

const APPS = {
  all: keeping("all"),
  async: keeping("async"),
  none: keeping("none"),
  cancelled: keeping("none"),
  app: { main: "def run(text, times=1):\n    return text * times\n", toml: ONE },
};

describe.for(triedKinds("sqlite"))("on %s", (kind) => {
  const service = sharedService(APPS, async () => {
    const { databaseUrl } = await databases.fresh(kind);
    return { ...WITHOUT_WALLS, ...(databaseUrl !== null && { databaseUrl }) };
  });

  verifies(
    "kept.record-payloads",
    '"all" and "async" keep an async run\'s input and result, "none" nothing of it after its end',
    async () => {
      const test = service();
      for (const app of ["all", "async", "none"]) {
        const isKept = app !== "none";
        const plain = await submit(test, app, { n: "secret" });
        expect(await ended(test, app, plain)).toMatchObject({ status: "success", statusCode: 200 });
        expect(await stored(test, app, plain)).toEqual([isKept, isKept, false]);
        const failed = await submit(test, app, { n: "secret" }, { functionName: "fail" });
        await ended(test, app, failed);
        expect(await stored(test, app, failed)).toEqual([isKept, isKept, false]);
        const stream = await submit(test, app, { to: 100_000 }, { functionName: "count" });
        expect(await ended(test, app, stream)).toMatchObject({ status: "success" });
        expect(await stored(test, app, stream)).toEqual([isKept, false, isKept]);
        const sync = (await test.call(app, { n: "sync" })).headers.get("x-request-id") ?? "";
        await test.service.settle();
        expect(await stored(test, app, sync)).toEqual([app === "all", app === "all", false]);
        for (const view of ["/input", "/result"]) {
          expect((await look(test, app, plain, view)).status).toBe(isKept ? 200 : 410);
        }
      }
    },
  );

  test('with "none" a run\'s input is there for a second attempt, and gone after it', async () => {
    const id = await submit(service(), "none", { n: "dying" }, { functionName: "die" });
    expect(await ended(service(), "none", id)).toMatchObject({ status: "failure", attempt: 2 });
    expect(ledger(service(), "none").slice(-2)).toEqual(["dying", "dying"]);
    expect(await stored(service(), "none", id)).toEqual([false, false, false]);
  });

  test('with "none" nothing is kept of runs that were cancelled, or had a key', async () => {
    const test = service();
    const app = "cancelled";
    const running = await submit(test, app, { n: "running" }, { functionName: "hold" });
    await until("it runs", () => ledger(test, app).length === 1);
    const queued: string[] = [];
    for (let n = 0; n < 3; n++) queued.push(await submit(test, app, { n: "queued" }));
    for (const id of [...queued, running]) expect((await cancel(test, app, id)).status).toBe(202);
    letGo(test, app);
    const answer = await test.call(app, { n: "keyed" }, { headers: { "idempotency-key": "k" } });
    const keyed = answer.headers.get("x-request-id") ?? "";
    for (const id of [running, ...queued, keyed]) {
      await ended(test, app, id);
      expect(await stored(test, app, id)).toEqual([false, false, false]);
    }
  });

  verifies(
    "kept.sync-payloads",
    "of a sync run up to 64 KiB of input and of result each are kept",
    async () => {
      const kept = async (body: { text: string; times?: number }): Promise<unknown[]> => {
        const id = (await service().call("app", body)).headers.get("x-request-id") ?? "";
        await service().service.settle();
        return (await stored(service(), "app", id)).slice(0, 2);
      };
      const most = 64 * 1024;
      const inputOf = (bytes: number): string => "x".repeat(bytes - '{"text":"","times":0}'.length);
      expect(await kept({ text: inputOf(most), times: 0 })).toEqual([true, true]);
      expect(await kept({ text: inputOf(most + 1), times: 0 })).toEqual([false, true]);
      expect(await kept({ text: "x", times: most })).toEqual([true, false]);
    },
  );
});
