import { expect } from "vitest";
import { type TestCall, testPool, type TestPool } from "../../support/pool.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import os
import time

def run():
    return os.getpid()

def stubborn_loop():
    try:
        open("entered", "w").close()
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                open("swallowed", "w").close()
    except BaseException as error:
        with open("caught.new", "w") as caught:
            caught.write(type(error).__name__)
        os.rename("caught.new", "caught")
        raise

def slow_cleanup():
    try:
        open("entered", "w").close()
        while True:
            time.sleep(0.01)
    finally:
        open("cleaning", "w").close()
        while not os.path.exists("cleaned"):
            time.sleep(0.005)
`;

const ASYNC = `
import asyncio
import os

async def run():
    return os.getpid()

async def wait():
    open("entered", "w").close()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        open("caught", "w").close()
        raise

async def beside():
    while not os.path.exists("go"):
        await asyncio.sleep(0.005)
    return os.getpid()
`;

/** Cancels a call once its code runs. */
async function cancelRunning(test: TestPool, call: TestCall): Promise<void> {
  await until("the call runs", () => test.has("entered"));
  test.pool.slots.abandon(call.call, { kind: "cancelled" });
  expect(await call.ended).toEqual({ kind: "cancelled" });
}

for (const concurrency of [1, 4]) {
  const toml = `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${concurrency}`;

  verifies(
    "cancel.exception",
    `cancel raises what \`except Exception\` does not catch, and the replica lives (concurrency ${concurrency})`,
    async () => {
      const test = await testPool({ main: MAIN, toml });
      const pid = await test.value("run", {});
      await cancelRunning(test, test.submit("stubborn_loop", {}));
      await until("the code has stopped", () => test.has("caught"));
      expect(test.text("caught")).toBe("RunCancelled");
      expect(test.has("swallowed")).toBe(false);
      expect(await test.value("run", {})).toBe(pid);
      expect(test.exits).toEqual([]);
    },
  );

  verifies(
    "cancel.async-task",
    `cancel of an async def call cancels its task and no other (concurrency ${concurrency})`,
    async () => {
      const test = await testPool({ main: ASYNC, toml });
      const pid = await test.value("run", {});
      const beside = concurrency > 1 ? test.value("beside", {}) : null;
      await cancelRunning(test, test.submit("wait", {}));
      await until("the task was cancelled", () => test.has("caught"));
      test.leave("go");
      expect(await (beside ?? test.value("run", {}))).toBe(pid);
      expect(test.exits).toEqual([]);
    },
  );
}

verifies("cancel.slot", "the slot of a cancelled call is free only when its code has stopped", async () => {
  const test = await testPool({ main: MAIN, toml: "[scaling]\nmax_replicas = 1" });
  await cancelRunning(test, test.submit("slow_cleanup", {}));
  await until("its code cleans up", () => test.has("cleaning"));
  const next = test.submit("run", {});
  expect(test.pool.slots.waiting).toBe(1);
  expect(next.call.holder).toBeNull();
  test.leave("cleaned");
  expect((await next.ended).kind).toBe("returned");
});

verifies("cancel.slot", "a call cancelled while it waits never begins and frees nothing", async () => {
  const test = await testPool({ main: MAIN, toml: "[scaling]\nmax_replicas = 1" });
  const running = test.submit("slow_cleanup", {});
  await until("the call runs", () => test.has("entered"));
  const waiting = test.submit("stubborn_loop", {});
  test.pool.slots.abandon(waiting.call, { kind: "cancelled" });
  expect(await waiting.ended).toEqual({ kind: "cancelled" });
  expect(test.pool.slots.waiting).toBe(0);
  test.leave("cleaned");
  test.pool.slots.abandon(running.call, { kind: "cancelled" });
  expect(Number(await test.value("run", {}))).toBeGreaterThan(0);
  expect(test.has("caught")).toBe(false);
});
