import { expect } from "vitest";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import os
import time

def run():
    return os.getpid()

def held(n):
    open("began-%d" % n, "w").close()
    while not os.path.exists("go-%d" % n):
        time.sleep(0.005)

def endless():
    open("endless", "w").close()
    try:
        while True:
            time.sleep(0.01)
    except BaseException as error:
        with open("stopped.new", "w") as stopped:
            stopped.write(type(error).__name__)
        os.rename("stopped.new", "stopped")
        raise
`;
const LIMIT_MS = 600_000;
const toml = `[scaling]\nmax_replicas = 1\nresponse_grace_period = ${LIMIT_MS / 1000}\nmax_queue_seconds = 43200`;

const clock = new SkippingClock();
const service = sharedService({ limited: { main: MAIN, toml } }, WITHOUT_WALLS, { clock });

/** A file in the app's working directory. */
const file = (name: string): string => path.join(service().bundleDir("limited"), name);

verifies(
  ["lifecycle.grace-504", "errors.timed-out", "lifecycle.grace-stops-code"],
  "a run past response_grace_period is 504 at once and failure on record; its code is stopped as by cancel",
  async () => {
    const test = service();
    const pid = (await test.call("limited")).json.result;
    const call = test.call("limited", {}, { functionName: "endless" });
    await until("it runs", () => existsSync(file("endless")));
    clock.skip(LIMIT_MS * 0.8);
    const { pool, app } = test.apps.get("limited")!;
    expect([...pool.replicas].map(({ calls }) => calls.size)).toEqual([1]);
    clock.skip(LIMIT_MS * 0.2);
    const answer = await call;
    expect([answer.status, answer.json.code]).toEqual([504, "timed_out"]);
    expect(answer.json.message).toBe("The run exceeded its response_grace_period of 600 s.");

    await until("its code was stopped", () => existsSync(file("stopped")));
    expect(readFileSync(file("stopped"), "utf8")).toBe("RunCancelled");
    expect((await test.call("limited")).json.result).toBe(pid);

    await test.service.settle();
    const id = answer.headers.get("x-request-id") ?? "";
    const run = await test.service.store.runs.find({ appNumber: app.number, id });
    expect(run).toMatchObject({ state: "failure", statusCode: 504, errorCode: "timed_out" });
  },
);

verifies(
  "lifecycle.grace-from-hand-over",
  "time in the queue does not count against response_grace_period",
  async () => {
    const calls = [1, 2, 3].map((n) => service().call("limited", { n }, { functionName: "held" }));
    const begun = new Set<number>();
    while (begun.size < calls.length) {
      const next = (): number => [1, 2, 3].find((n) => !begun.has(n) && existsSync(file(`began-${n}`))) ?? 0;
      await until("the next one runs", () => next() > 0);
      const n = next();
      begun.add(n);
      clock.skip(LIMIT_MS * 0.8);
      writeFileSync(file(`go-${n}`), "");
    }
    const answers = await Promise.all(calls);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  },
);
