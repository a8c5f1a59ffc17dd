import { writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { serve } from "../../support/command-line.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, MAIN, ONE, Site, ended, ledger, letGo, recordOf, submit } from "./site.ts";

const databases = testDatabases();
const HOLD = { functionName: "hold" };
const GRACE = { shutdownGrace: "0.2s" };

async function flagsOf(kind: "sqlite" | "postgres"): Promise<Record<string, unknown>> {
  const { databaseUrl } = await databases.fresh(kind);
  return databaseUrl === null ? {} : { databaseUrl };
}

describe.for(DATABASE_KINDS)("on %s", (kind) => {
  verifies(
    ["async.orderly-stop", "async.service-death", "async.draining"],
    "an orderly stop puts running and waiting runs back into the queue; the next service finishes them",
    async () => {
      const flags = { ...(await flagsOf(kind)), ...GRACE };
      const site = new Site({ app: { main: MAIN, toml: ONE } });
      const first = await site.start({ flags });
      const ids: string[] = [];
      for (let n = 0; n < 5; n++) ids.push(await submit(first, "app", { n }, HOLD));
      await until("one runs", () => ledger(first, "app").length === 1);
      const readyz = async (): Promise<number> => (await fetch(`${first.service.baseUrl}/readyz`)).status;
      const stopped = first.service.stop();
      await until("it drains", async () => (await readyz()) === 503);
      const refused = await first.call("app", {}, ASYNC);
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
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
    },
  );
});

verifies("async.orderly-stop", "what ends within the grace is not put back", async () => {
  const site = new Site({ app: { main: MAIN, toml: ONE } });
  const first = await site.start();
  const id = await submit(first, "app", { n: 1 }, HOLD);
  await until("it runs", () => ledger(first, "app").length === 1);
  const stopped = first.service.stop();
  letGo(first, "app");
  await stopped;
  const second = await site.start();
  expect(await recordOf(second, "app", id)).toMatchObject({ status: "success", result: 1 });
  expect(ledger(second, "app")).toEqual(["1"]);
});

test("a version that was replaced finishes what it runs and what was accepted for it", async () => {
  const service = await new Site({ app: { main: MAIN, toml: ONE } }).start();
  const ids: string[] = [];
  for (let n = 0; n < 4; n++) ids.push(await submit(service, "app", { n }, HOLD));
  await until("one runs", () => ledger(service, "app").length === 1);
  const old = service.apps.get("app")!;
  const main = MAIN.replaceAll("return n\n", "return [n, 'new']\n");
  await service.deploy("app", { main, toml: ONE });
  letGo(service, "app");
  ids.push(await submit(service, "app", { n: 4 }, HOLD));
  writeFileSync(path.join(old.version.bundleDir, "go"), "");
  for (const [n, id] of ids.entries()) {
    expect(await ended(service, "app", id)).toMatchObject({ result: n < 4 ? n : [n, "new"], attempt: 1 });
  }
});

verifies(
  "async.service-death.bound",
  "the 21st end of the service under a run is the run's own",
  async () => {
    const site = new Site({ app: { main: MAIN, toml: ONE } });
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
        leaseMs: 1000,
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
  ["async.service-death", "async.durable", "idempotency.sync-committed"],
  "kill -9 loses no accepted run: each is finished by the next service, a keyed caller's is failure",
  async () => {
    const site = new Site({ app: { main: MAIN, toml: ONE } });
    const first = await site.start();
    const { owner } = first.service;
    await first.service.stop();
    const served = await serve(site.dataDir);
    const call = (body: object, suffix: string, headers = {}): Promise<Response> =>
      fetch(`${served.apiUrl}/v4/${owner.projectId}/app/hold${suffix}`, {
        method: "POST",
        headers: { authorization: `Bearer ${owner.token}`, "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      });
    const keyed = call({ n: "keyed" }, "", { "idempotency-key": "k" }).catch(() => "broken off");
    await until("the keyed run is under way", () => ledger(first, "app").length === 1);
    const ids: string[] = [];
    for (let n = 0; n < 20; n++)
      ids.push((await call({ n }, "?async=true")).headers.get("x-request-id") ?? "");
    process.kill(served.command.pid, "SIGKILL");
    await served.command.exited;
    expect(await keyed).toBe("broken off");
    letGo(first, "app");
    const second = await site.start();
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
