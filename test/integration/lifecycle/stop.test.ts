import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { HOLDING_APP } from "../../support/holding-app.ts";
import { type TestService, testService, WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const hold = { functionName: "hold" };
/** Longer than any test takes. */
const GRACE_MS = 600_000;
const GRACE = { shutdownGrace: `${GRACE_MS / 1000}s` };

/** How many calls of an app are in its replicas' hands. */
function running(service: TestService, app: string): number {
  const replicas = [...(service.apps.get(app)?.pool.replicas ?? [])];
  return replicas.reduce((sum, { calls }) => sum + calls.size, 0);
}

/** Lets every held call of an app go. */
function release(service: TestService, app: string): void {
  writeFileSync(path.join(service.bundleDir(app), "go"), "");
}

async function readiness({ service }: TestService): Promise<number> {
  return (await fetch(`${service.baseUrl}/readyz`)).status;
}

verifies(
  ["lifecycle.stop.readiness", "errors.draining", "lifecycle.stop.grace"],
  "a stopping service is not ready and answers 503 with Retry-After, while what runs is finished",
  async () => {
    const service = await testService({ held: { main: HOLDING_APP } }, WITHOUT_WALLS);
    expect(await readiness(service)).toBe(200);
    const first = service.call("held", {}, hold);
    await until("the call runs", () => running(service, "held") === 1);
    const stopped = service.service.stop();
    await until("readiness is off", async () => (await readiness(service)) === 503);
    const refused = await service.call("held");
    expect([refused.status, refused.json.code]).toEqual([503, "draining"]);
    expect(refused.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
    release(service, "held");
    expect((await first).status).toBe(200);
    await stopped;
  },
);

verifies(
  "lifecycle.stop.grace",
  "a stop fails no call that was taken, though most of them wait",
  async () => {
    for (const concurrency of [1, 3]) {
      const toml = `[scaling]\nmax_replicas = 2\nreplica_concurrency = ${concurrency}`;
      const service = await testService({ loaded: { main: HOLDING_APP, toml } }, WITHOUT_WALLS);
      const calls = Array.from({ length: 30 }, () => service.call("loaded", {}, hold));
      const slots = 2 * concurrency;
      const pool = service.apps.get("loaded")?.pool;
      await until(
        "all are taken",
        () => running(service, "loaded") === slots && pool?.slots.waiting === 30 - slots,
      );
      const stopped = service.service.stop();
      release(service, "loaded");
      const answers = await Promise.all(calls);
      expect(answers.filter(({ status }) => status !== 200).map(({ text }) => text)).toEqual([]);
      await stopped;
    }
  },
);

verifies("lifecycle.stop.sync", "at the end of the grace a caller whose run goes on gets 503", async () => {
  const clock = new SkippingClock();
  const service = await testService(
    { endless: { main: HOLDING_APP } },
    { ...GRACE, ...WITHOUT_WALLS },
    { clock },
  );
  const state = { isAnswered: false };
  const held = service.call("endless", {}, hold).finally(() => (state.isAnswered = true));
  await until("the call runs", () => running(service, "endless") === 1);
  const stopped = service.service.stop();
  await clock.sets(GRACE_MS);
  clock.skip(GRACE_MS / 2);
  // A whole other call goes by: an answer would have had the time.
  expect((await service.call("endless")).status).toBe(503);
  expect(state.isAnswered).toBe(false);
  clock.skip(GRACE_MS / 2);
  const answer = await held;
  expect([answer.status, answer.json.code]).toEqual([503, "draining"]);
  expect(answer.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
  await stopped;
});

test("a run of an earlier version that goes on does not hold a stop longer than the grace", async () => {
  const clock = new SkippingClock();
  const service = await testService(
    { again: { main: HOLDING_APP } },
    { ...GRACE, ...WITHOUT_WALLS },
    { clock },
  );
  const held = service.call("again", {}, hold);
  await until("the call runs", () => running(service, "again") === 1);
  await service.deploy("again", { main: `${HOLDING_APP}\n# second\n` });
  expect((await service.call("again")).status).toBe(200);
  const stopped = service.service.stop();
  await clock.sets(GRACE_MS);
  clock.skip(GRACE_MS);
  await stopped;
  expect((await held).status).toBe(503);
});
