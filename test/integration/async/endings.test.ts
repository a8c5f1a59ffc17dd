import { writeFileSync } from "node:fs";
import { describe, expect, test, vi } from "vitest";
import { testService } from "../../support/service.ts";
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

const TWELVE_HOURS_MS = 12 * 3600 * 1000;

const service = sharedService({
  app: { main: MAIN, toml: ONE },
  once: { main: MAIN, toml: attempts(1) },
  twice: { main: MAIN, toml: ONE },
  thrice: { main: MAIN, toml: attempts(3) },
  brief: { main: MAIN, toml: `${ONE}response_grace_period = 1\n` },
});

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
    const test = await testService({ app: { main: MAIN, toml: ONE } });
    const running = await submit(test, "app", { n: 1 }, { functionName: "hold" });
    const queued = await submit(test, "app", { n: 2 }, { functionName: "hold" });
    await until("one runs", async () => (await recordOf(test, "app", running)).status === "running");
    const unfinished = { statusCode: null, completedAt: null, async: true, error: null };
    expect(await recordOf(test, "app", running)).toMatchObject({ status: "running", ...unfinished });
    expect(await recordOf(test, "app", queued)).toMatchObject({ status: "queued", ...unfinished });
    expect(await recordOf(test, "app", queued)).not.toHaveProperty("result");
    const early = await look(test, "app", queued, "/result");
    expect([early.status, early.headers.get("retry-after")]).toEqual([202, "1"]);
    letGo(test, "app");
    const record = await ended(test, "app", running);
    expect(record).toMatchObject({ status: "success", statusCode: 200, result: 1, attempt: 1 });
    expect((await ended(test, "app", queued)).startedAt).not.toBe(null);
    expect(await recordOf(test, "app", running)).toEqual(record);
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
    const test = await testService({ app: { main, toml: ONE } });
    const id = await submit(test, "app", {}, { functionName: "flaky" });
    expect(await ended(test, "app", id)).toMatchObject({ status: "success", attempt: 2, result: "well" });
  });
});

verifies("async.time-limit", "a run past response_grace_period is failure 504", async () => {
  const id = await submit(service(), "brief", {}, { functionName: "hold" });
  expect(await ended(service(), "brief", id)).toMatchObject({
    status: "failure",
    statusCode: 504,
    attempt: 1,
    error: { code: "timed_out" },
  });
  expect(ledger(service(), "brief")).toEqual(["0"]);
  const next = await submit(service(), "brief", { n: 1 });
  expect((await ended(service(), "brief", next)).status).toBe("success");
});

verifies("async.time-limit.max", "a run may take 12 hours, and not a second more", async () => {
  const toml = '[scaling]\nmax_replicas = 1\nreplica_concurrency = 2\nresponse_grace_period = "12h"\n';
  const test = await testService({ app: { main: MAIN, toml } });
  const id = await submit(test, "app", {}, { functionName: "hold" });
  await until("it runs", () => ledger(test, "app").length === 1);
  const now = performance.now.bind(performance);
  const clock = vi.spyOn(performance, "now");
  try {
    clock.mockImplementation(() => now() + TWELVE_HOURS_MS - 60_000);
    // Calls by themselves, of the same replica: the pool looks at the time meanwhile.
    for (let n = 0; n < 5; n++) expect((await test.call("app")).status).toBe(200);
    expect(await recordOf(test, "app", id)).toMatchObject({ status: "running" });
    clock.mockImplementation(() => now() + TWELVE_HOURS_MS);
    expect(await ended(test, "app", id)).toMatchObject({ statusCode: 504, error: { code: "timed_out" } });
  } finally {
    clock.mockRestore();
    letGo(test, "app");
  }
});

test("an app that cannot start makes its runs failures 503, and runs again when it can", async () => {
  const toml = `${ONE}cooldown = 0\n[deployment]\nfork = "never"\n`;
  const test = await testService({ app: { main: FAILING, toml } });
  await ended(test, "app", await submit(test, "app"));
  await until("the app is at zero", () => test.ready("app") === 0);
  writeFileSync(bundleFile(test, "app", "broken"), "");
  expect(await ended(test, "app", await submit(test, "app"))).toMatchObject({
    status: "failure",
    statusCode: 503,
    attempt: 1,
    error: { code: "app_not_ready", message: expect.stringContaining("no model file") },
  });
});

test("an app that never ran and cannot start is told to the caller at once", async () => {
  const test = await testService({ app: { main: "raise RuntimeError('no model file')" } });
  const answer = await test.call("app", {}, ASYNC);
  expect([answer.status, answer.json.code]).toEqual([503, "app_not_ready"]);
});

verifies(
  "async.must-finish",
  "a function that returns while its work goes on has its replica's termination begin",
  async () => {
    const test = await testService({ app: { main: LEAVING, toml: `${ONE}cooldown = 0\n` } });
    const id = await submit(test, "app");
    expect((await ended(test, "app", id)).result).toBe("too early");
    await until("the replica is gone", () => test.apps.get("app")?.pool.replicas.size === 0);
  },
);
