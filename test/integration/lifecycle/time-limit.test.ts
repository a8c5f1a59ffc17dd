import { expect } from "vitest";
import { readFileSync, existsSync } from "node:fs";
import path from "node:path";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import os
import time

def run(seconds=0):
    time.sleep(seconds)
    return os.getpid()

def endless():
    try:
        while True:
            time.sleep(0.01)
    except BaseException as error:
        with open("stopped.new", "w") as stopped:
            stopped.write(type(error).__name__)
        os.rename("stopped.new", "stopped")
        raise
`;
const toml = '[scaling]\nmax_replicas = 1\nresponse_grace_period = "1s"';

const service = sharedService({ limited: { main: MAIN, toml } });

verifies(
  ["lifecycle.grace-504", "errors.timed-out", "lifecycle.grace-stops-code"],
  "a run past response_grace_period is 504 at once and failure on record; its code is stopped as by cancel",
  async () => {
    const test = service();
    const pid = (await test.call("limited")).json.result;
    const startedAt = performance.now();
    const answer = await test.call("limited", {}, { functionName: "endless" });
    const tookMs = performance.now() - startedAt;
    expect([answer.status, answer.json.code]).toEqual([504, "timed_out"]);
    expect(answer.json.message).toBe("The run passed its response_grace_period of 1 s.");
    expect(tookMs).toBeGreaterThan(990);
    expect(tookMs).toBeLessThan(2_500);

    const live = test.apps.get("limited");
    const stopped = path.join(live?.version.bundleDir ?? "", "stopped");
    await until("its code was stopped", () => existsSync(stopped));
    expect(readFileSync(stopped, "utf8")).toBe("RunCancelled");
    expect((await test.call("limited")).json.result).toBe(pid);

    await test.service.settle();
    const id = answer.headers.get("x-request-id") ?? "";
    const run = await test.service.store.runs.find({ appNumber: live?.app.number ?? 0, id });
    expect(run).toMatchObject({ state: "failure", statusCode: 504, errorCode: "timed_out" });
  },
);

verifies(
  "lifecycle.grace-from-hand-over",
  "time in the queue does not count against response_grace_period",
  async () => {
    const startedAt = performance.now();
    const calls = [1, 2, 3].map(() => service().call("limited", { seconds: 0.6 }));
    const answers = await Promise.all(calls);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(performance.now() - startedAt).toBeGreaterThan(1_800);
  },
);
