import { describe, expect } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { serve } from "../../support/command-line.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, MAIN, ONE, Site, ended, ledger, letGo, recordOf, submit } from "./site.ts";

const databases = testDatabases();
const APP = { main: MAIN, toml: ONE };
const HOLD = { functionName: "hold" };
const GRACE = { shutdownGrace: "0.2s" };

async function flagsOf(kind: "sqlite" | "postgres"): Promise<Record<string, unknown>> {
  const { databaseUrl } = await databases.fresh(kind);
  return databaseUrl === null ? {} : { databaseUrl };
}

describe.for(DATABASE_KINDS)("on %s", (kind) => {
  verifies(
    ["async.orderly-stop", "async.service-death", "async.draining"],
    "what ends within the grace of an orderly stop has ended; what runs on and what waits is finished by the next service",
    async () => {
      const flags = { ...(await flagsOf(kind)), shutdownGrace: "10m" };
      const clock = new SkippingClock();
      const site = new Site({ app: APP, brief: APP });
      const first = await site.start({ flags, clock });
      const ids: string[] = [];
      for (let n = 0; n < 5; n++) ids.push(await submit(first, "app", { n }, HOLD));
      const brief = await submit(first, "brief", { n: 1 }, HOLD);
      for (const app of ["app", "brief"]) await until("one runs", () => ledger(first, app).length === 1);
      const readyz = async (): Promise<number> => (await fetch(`${first.service.baseUrl}/readyz`)).status;
      const stopped = first.service.stop();
      await until("it drains", async () => (await readyz()) === 503);
      const refused = await first.call("app", {}, ASYNC);
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
      letGo(first, "brief");
      const { number } = first.apps.get("brief")!.app;
      await until("the brief one has ended", async () => {
        const run = await first.service.store.runs.find({ appNumber: number, id: brief });
        return run?.state === "success";
      });
      clock.leap(600_000);
      await stopped;
      const second = await site.start({ flags });
      const { store } = second.service;
      await until("the first one runs again", () => ledger(second, "app").length === 2);
      const { app } = second.apps.get("app")!;
      const rows = await store.runs.list({ appNumber: app.number, limit: 10 });
      // Newest first.
      expect(rows.map(({ id }) => id)).toEqual(ids.toReversed());
      expect(rows.map(({ interruptions }) => interruptions)).toEqual([0, 0, 0, 0, 1]);
      letGo(second, "app");
      for (const [n, id] of ids.entries()) {
        expect(await ended(second, "app", id)).toMatchObject({ status: "success", attempt: 1, result: n });
      }
      expect(ledger(second, "app")).toEqual(["0", "0", "1", "2", "3", "4"]);
      expect(await recordOf(second, "brief", brief)).toMatchObject({ status: "success", result: 1 });
      expect(ledger(second, "brief")).toEqual(["1"]);
    },
  );
});

verifies(
  "async.service-death.bound",
  "the 21st end of the service under a run is the run's own",
  async () => {
    const site = new Site({ app: APP });
    const first = await site.start({ flags: GRACE });
    const id = await submit(first, "app", { n: 1 }, HOLD);
    await until("it runs", () => ledger(first, "app").length === 1);
    const { store } = first.service;
    const { app } = first.apps.get("app")!;
    // As if the service had ended 19 times: the stop below is the 20th.
    for (let n = 0; n < 19; n++) {
      await store.claims.recover({ owner: "another", isAlone: true });
      await store.claims.claim({
        appNumber: app.number,
        owner: "another",
        limit: 1,
        maxBytes: 1000,
      });
    }
    await first.service.stop();
    const second = await site.start({ flags: GRACE });
    await until("it runs for the 20th time", () => ledger(second, "app").length === 2);
    await second.service.stop();
    const third = await site.start({ flags: GRACE });
    expect(await ended(third, "app", id)).toMatchObject({
      status: "failure",
      statusCode: 503,
      attempt: 1,
      error: { code: "interrupted" },
    });
    expect(ledger(third, "app")).toHaveLength(2);
  },
);

verifies(
  ["async.service-death", "async.durable", "idempotency.sync-committed", "run.prefer.202"],
  "kill -9 loses no accepted run: each is finished by the next service, a keyed caller's is failure",
  async () => {
    const site = new Site({ app: APP, preferred: APP });
    const first = await site.start();
    const { owner } = first.service;
    await first.service.stop();
    const served = await serve(site.dataDir, { MILLRACE_ISOLATION: "none" });
    const call = (body: object, suffix: string, headers = {}, app = "app"): Promise<Response> =>
      fetch(`${served.apiUrl}/v4/${owner.projectId}/${app}/hold${suffix}`, {
        method: "POST",
        headers: { authorization: `Bearer ${owner.token}`, "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      });
    const keyed = call({ n: "keyed" }, "", { "idempotency-key": "k" }).catch(() => "broken off");
    await until("the keyed run is under way", () => ledger(first, "app").length === 1);
    const ids: string[] = [];
    for (let n = 0; n < 20; n++)
      ids.push((await call({ n }, "?async=true")).headers.get("x-request-id") ?? "");
    // A caller who did not want to wait, and whose run is under way.
    const adopted = await call({ n: "preferred" }, "", { prefer: "wait=0" }, "preferred");
    expect(adopted.status).toBe(202);
    const preferred = adopted.headers.get("x-request-id") ?? "";
    await until("that run is under way", () => ledger(first, "preferred").length === 1);
    process.kill(served.command.pid, "SIGKILL");
    await served.command.exited;
    expect(await keyed).toBe("broken off");
    for (const app of ["app", "preferred"]) letGo(first, app);
    const second = await site.start();
    expect(await ended(second, "preferred", preferred)).toMatchObject({
      async: true,
      status: "success",
      attempt: 1,
      result: "preferred",
    });
    for (const [n, id] of ids.entries()) {
      expect(await ended(second, "app", id)).toMatchObject({ status: "success", attempt: 1, result: n });
    }
    expect(ledger(second, "app")).toEqual(["keyed", ...ids.map((_, n) => String(n))]);
    const again = await second.call("app", { n: "keyed" }, { ...HOLD, headers: { "idempotency-key": "k" } });
    expect([again.status, again.json.code, again.headers.get("idempotent-replayed")]).toEqual([
      503,
      "interrupted",
      "true",
    ]);
    const record = await recordOf(second, "app", again.headers.get("x-request-id") ?? "");
    expect(record).toMatchObject({ status: "failure", async: false, error: { code: "interrupted" } });
  },
);
