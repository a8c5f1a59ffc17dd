import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { HOLDING_APP } from "../../support/holding-app.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

/** An import that goes on until it is let go. */
const HEAVY = `
import os
import time

while not os.path.exists("imported"):
    time.sleep(0.005)
${HOLDING_APP}`;

const ONE = "[scaling]\nmax_replicas = 1";
const clock = new SkippingClock();
const service = sharedService(
  {
    small: { main: HOLDING_APP, toml: `${ONE}\nmax_queue = 2` },
    patient: { main: HOLDING_APP, toml: `${ONE}\nmax_queue_seconds = 600` },
    heavy: { main: HEAVY, toml: `${ONE}\nmax_queue_seconds = 10` },
    slow: { main: HOLDING_APP, toml: `${ONE}\nmax_queue = 10` },
    fast: { main: HOLDING_APP, toml: `${ONE}\nmax_queue = 10` },
  },
  WITHOUT_WALLS,
  { clock },
);

const hold = { functionName: "hold" };

/** Lets every held call of an app go. */
function release(app: string, gate = "go"): void {
  writeFileSync(path.join(service().bundleDir(app), gate), "");
}

/** Waits until so many calls of an app wait for a replica. */
async function untilWaiting(app: string, count: number): Promise<void> {
  await until(`${count} calls wait`, () => service().apps.get(app)?.pool.slots.waiting === count);
}

/** Waits until an app's one replica works on a call. */
async function untilRunning(app: string): Promise<void> {
  const { pool } = service().apps.get(app) ?? {};
  await until("a call runs", () => [...(pool?.replicas ?? [])][0]?.calls.size === 1);
}

verifies(
  "errors.busy.max-queue",
  "one caller more than max_queue is 503 queue_full, and the others are answered",
  async () => {
    const test = service();
    await test.call("small");
    const held = [test.call("small", {}, hold)];
    await untilRunning("small");
    held.push(test.call("small", {}, hold), test.call("small", {}, hold));
    await untilWaiting("small", 2);
    const refused = await test.call("small", {}, hold);
    expect([refused.status, refused.json.code]).toEqual([503, "queue_full"]);
    expect(refused.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
    release("small");
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200, 200]);
    expect((await test.call("small")).status).toBe(200);
  },
);

verifies(
  "errors.busy.max-queue-seconds",
  "a caller who has waited max_queue_seconds gets 503 queue_timeout",
  async () => {
    const test = service();
    await test.call("patient");
    const held = test.call("patient", {}, hold);
    await untilRunning("patient");
    const waiting = test.call("patient");
    await untilWaiting("patient", 1);
    clock.skip(400_000);
    expect(test.apps.get("patient")?.pool.slots.waiting).toBe(1);
    clock.skip(200_000);
    const refused = await waiting;
    expect([refused.status, refused.json.code]).toEqual([503, "queue_timeout"]);
    expect(refused.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
    release("patient");
    expect((await held).status).toBe(200);
  },
);

verifies("errors.busy.cold-time", "an import longer than max_queue_seconds refuses nobody", async () => {
  const test = service();
  const calls = [test.call("heavy"), test.call("heavy")];
  await untilWaiting("heavy", 2);
  clock.skip(30_000);
  release("heavy", "imported");
  const answers = await Promise.all(calls);
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  for (const { headers } of answers) {
    const { start, queue } = timings(headers.get("server-timing") ?? "");
    expect(start).toBeGreaterThanOrEqual(30_000);
    expect(queue).toBeLessThan(10_000);
  }
});

verifies(
  "errors.busy.retry-after",
  "Retry-After grows with the queue and with what a call takes",
  async () => {
    const test = service();
    const retryAfter = async (app: string, seconds: number): Promise<number> => {
      for (let call = 0; call < 3; call++) await test.call(app, { seconds });
      const held = Array.from({ length: 11 }, () => test.call(app, {}, hold));
      await untilWaiting(app, 10);
      const refused = await test.call(app);
      expect(refused.status).toBe(503);
      release(app);
      await Promise.all(held);
      return Number(refused.headers.get("retry-after"));
    };
    // Ten callers before the next one, 0.4 s each, one replica.
    const slow = await retryAfter("slow", 0.4);
    expect(slow).toBeGreaterThanOrEqual(4);
    expect(await retryAfter("fast", 0)).toBeLessThan(slow);
  },
);

function timings(header: string): Record<string, number> {
  const parts = header.split(", ").map((part) => part.split(";dur="));
  return Object.fromEntries(parts.map(([name, ms]) => [name, Number(ms)]));
}
