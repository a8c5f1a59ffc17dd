import { rmSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, MAIN, ONE, bundleFile, ended, ledger, letGo, look, recordOf, submit } from "./site.ts";

const attempts = (most: number): string => `${ONE}max_attempts = ${most}\n`;
const FAILING = `
import os
if os.path.exists("broken"):
    raise RuntimeError("no model file")

def run():
    return 1
`;
const LEAVING = `
import threading
import time

def run():
    def work():
        while True:
            with open("ticks", "a") as ticks:
                ticks.write("x")
            time.sleep(0.01)
    threading.Thread(target=work).start()
    return "too early"
`;

const MINUTE_MS = 60_000;
const TWELVE_HOURS_MS = 12 * 60 * MINUTE_MS;
/** An idle replica stays so long, unless the app says otherwise. */
const COOLDOWN_MS = 30_000;

const clock = new SkippingClock();
const service = sharedService(
  {
    app: { main: MAIN, toml: ONE },
    once: { main: MAIN, toml: attempts(1) },
    twice: { main: MAIN, toml: ONE },
    thrice: { main: MAIN, toml: attempts(3) },
  },
  WITHOUT_WALLS,
  { clock },
);

describe("a run's state mirrors its call", () => {
  verifies(
    ["async.failure", "async.raise-is-final"],
    "a function that raises is failure, and is not tried again",
    async () => {
      const id = await submit(service(), "app", { n: 5 }, { functionName: "fail" });
      expect(await ended(service(), "app", id)).toMatchObject({
        status: "failure",
        statusCode: 500,
        async: true,
        attempt: 1,
        error: { code: "app_error", message: "ValueError: no 5" },
      });
      const sync = await service().call("app", { n: 5 }, { functionName: "fail" });
      const result = await look(service(), "app", id, "/result");
      expect([result.status, result.json]).toEqual([500, { ...sync.json, request_id: id }]);
      expect(ledger(service(), "app").filter((line) => line === "5")).toHaveLength(2);
    },
  );

  verifies("async.mirrors", "success if and only if the status is below 400", async () => {
    const outcome = async (code: number): Promise<unknown[]> => {
      const id = await submit(service(), "app", { code }, { functionName: "status" });
      const { status, statusCode } = await ended(service(), "app", id);
      return [statusCode, status];
    };
    for (const code of [200, 201, 204, 302, 399]) expect(await outcome(code)).toEqual([code, "success"]);
    for (const code of [400, 404, 418, 500, 599]) expect(await outcome(code)).toEqual([code, "failure"]);
  });

  verifies("async.mirrors", "statusCode is null until the end, and what is final stays", async () => {
    const test = service();
    const app = await test.own({ main: MAIN, toml: ONE });
    const running = await submit(test, app, { n: 1 }, { functionName: "hold" });
    const queued = await submit(test, app, { n: 2 }, { functionName: "hold" });
    await until("one runs", async () => (await recordOf(test, app, running)).status === "running");
    const unfinished = { statusCode: null, completedAt: null, async: true, error: null };
    expect(await recordOf(test, app, running)).toMatchObject({ status: "running", ...unfinished });
    expect(await recordOf(test, app, queued)).toMatchObject({ status: "queued", ...unfinished });
    expect(await recordOf(test, app, queued)).not.toHaveProperty("result");
    const early = await look(test, app, queued, "/result");
    expect([early.status, early.headers.get("retry-after")]).toEqual([202, "1"]);
    letGo(test, app);
    const record = await ended(test, app, running);
    expect(record).toMatchObject({ status: "success", statusCode: 200, result: 1, attempt: 1 });
    expect((await ended(test, app, queued)).startedAt).not.toBe(null);
    expect(await recordOf(test, app, running)).toEqual(record);
  });
});

describe("a replica that dies under a run", () => {
  for (const [app, most] of [
    ["once", 1],
    ["twice", 2],
    ["thrice", 3],
  ] as const) {
    verifies("async.replica-death", `costs an attempt, of which there are ${most}`, async () => {
      const id = await submit(service(), app, {}, { functionName: "die" });
      expect(await ended(service(), app, id)).toMatchObject({
        status: "failure",
        statusCode: 502,
        attempt: most,
        error: { code: "app_crashed" },
      });
      expect(ledger(service(), app)).toHaveLength(most);
    });
  }

  verifies("async.replica-death", "does not matter to a run whose next attempt goes well", async () => {
    const main = `${MAIN}\ndef flaky():\n    note("x")\n    if len(open("ledger").readlines()) == 1:\n        os._exit(1)\n    return "well"\n`;
    const app = await service().own({ main, toml: ONE });
    const id = await submit(service(), app, {}, { functionName: "flaky" });
    expect(await ended(service(), app, id)).toMatchObject({ status: "success", attempt: 2, result: "well" });
  });
});

verifies(
  ["async.time-limit", "async.time-limit.max"],
  "a run may take response_grace_period, 12 hours at most; past it it is failure 504, and the app goes on",
  async () => {
    const test = service();
    const app = await test.own({ main: MAIN, toml: `${ONE}response_grace_period = "12h"\n` });
    const id = await submit(test, app, {}, { functionName: "hold" });
    await until("it runs", () => ledger(test, app).length === 1);
    clock.leap(TWELVE_HOURS_MS - MINUTE_MS);
    expect(await recordOf(test, app, id)).toMatchObject({ status: "running" });
    clock.leap(MINUTE_MS);
    expect(await ended(test, app, id)).toMatchObject({
      status: "failure",
      statusCode: 504,
      attempt: 1,
      error: { code: "timed_out" },
    });
    expect(ledger(test, app)).toEqual(["0"]);
    const next = await submit(test, app, { n: 1 });
    expect((await ended(test, app, next)).status).toBe("success");
  },
);

test("an app that cannot start makes its runs failures 503, and runs again when it can", async () => {
  const test = service();
  const app = await test.own({ main: FAILING, toml: `${ONE}[deployment]\nfork = "never"\n` });
  await ended(test, app, await submit(test, app));
  clock.skip(COOLDOWN_MS);
  await until("the app is at zero", () => test.apps.get(app)?.pool.replicas.size === 0);
  writeFileSync(bundleFile(test, app, "broken"), "");
  expect(await ended(test, app, await submit(test, app))).toMatchObject({
    status: "failure",
    statusCode: 503,
    attempt: 1,
    error: { code: "app_not_ready", message: expect.stringContaining("no model file") },
  });
  rmSync(bundleFile(test, app, "broken"));
  clock.skip(MINUTE_MS); // Longer than any wait for the next try.
  expect((await ended(test, app, await submit(test, app))).status).toBe("success");
});

test("an app that never ran and cannot start is told to the caller at once", async () => {
  const app = await service().own({ main: "raise RuntimeError('no model file')" });
  const answer = await service().call(app, {}, ASYNC);
  expect([answer.status, answer.json.code]).toEqual([503, "app_not_ready"]);
});

verifies(
  "async.must-finish",
  "a function that returns while its work goes on has its replica's termination begin",
  async () => {
    const test = service();
    const app = await test.own({ main: LEAVING, toml: `${ONE}cooldown = 0\n` });
    const id = await submit(test, app);
    expect((await ended(test, app, id)).result).toBe("too early");
    await until("the replica is gone", () => test.apps.get(app)?.pool.replicas.size === 0);
  },
);
