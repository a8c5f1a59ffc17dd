import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { execFile } from "node:child_process";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import type { Worker } from "node:worker_threads";
import { afterEach, describe, expect, test } from "vitest";
import { checkJson } from "../../../src/kit/json/check-json.ts";
import { checkJsonOffThread, closeJsonChecker, OFF_THREAD_BYTES } from "../../../src/kit/json/off-thread.ts";

const NAMED_A = { fault: null, names: ["a"] };
const large = (bytes: number) => Buffer.from(`{"a":"${"x".repeat(bytes - 8)}"}`);

/** Half a second's work for the thread, so that it can be ended in the middle of it. */
const slow = Buffer.from(`{${Array.from({ length: 600_000 }, (_, i) => `"key${i}":0`).join(",")}}`);

const endedEarly: unknown = expect.stringMatching(/^the JSON checking thread ended with code/);

/** The real thread that the next check starts. */
async function nextThread(): Promise<Worker> {
  const [worker] = (await once(process, "worker")) as [Worker];
  return worker;
}

/** The most processor time this thread spends in one turn of the event loop during a check. */
async function longestTurnMs(body: Buffer): Promise<number> {
  await setImmediate();
  const turn = { before: process.threadCpuUsage(), longestMs: 0, isLast: false };
  const check = checkJsonOffThread(body).finally(() => (turn.isLast = true));
  while (!turn.isLast) {
    await setImmediate();
    const spent = process.threadCpuUsage(turn.before);
    turn.longestMs = Math.max(turn.longestMs, (spent.user + spent.system) / 1000);
    turn.before = process.threadCpuUsage();
  }
  expect(await check).toEqual(NAMED_A);
  return turn.longestMs;
}

describe("the checking thread", () => {
  afterEach(closeJsonChecker);

  test("says what the check on the spot says", async () => {
    const bodies = [
      Buffer.alloc(0),
      large(OFF_THREAD_BYTES),
      large(5_000_000),
      Buffer.from(`{"a":[${"0,".repeat(400_000)}NaN]}`),
      Buffer.from('{"a":1,"a":2}'),
      Buffer.concat([large(3_000_000), Buffer.from([0xff])]),
    ];
    const checked = await Promise.all(bodies.map(checkJsonOffThread));
    expect(checked.map(({ fault }) => fault)).toEqual(bodies.map(checkJson));
    expect(checked.map(({ fault }) => fault === null)).toEqual([true, true, true, false, false, false]);
    expect(checked.map(({ names }) => names)).toEqual([[], ["a"], ["a"], [], [], []]);
  });

  test("does not gather the memory of past bodies", async () => {
    const body = large(16 * 1024 * 1024);
    for (let i = 0; i < 4; i++) await checkJsonOffThread(body);
    const before = process.memoryUsage.rss();
    for (let i = 0; i < 24; i++) await checkJsonOffThread(body);
    // All of them kept would be 384 MiB.
    expect(process.memoryUsage.rss() - before).toBeLessThan(200 * 1024 * 1024);
  }, 30_000);

  test("is started once and used again", async () => {
    const started: Worker[] = [];
    const note = (worker: Worker) => started.push(worker);
    process.on("worker", note);
    for (let i = 0; i < 3; i++) await checkJsonOffThread(large(1000));
    process.off("worker", note);
    expect(started).toHaveLength(1);
  });

  test("holds the event loop for less than 5 ms with 32 MiB", async () => {
    const body = large(32 * 1024 * 1024);
    // The best of three, for a garbage collection counts too; a body copied whole takes 16 ms in each.
    const tries = [await longestTurnMs(body), await longestTurnMs(body), await longestTurnMs(body)];
    expect(Math.min(...tries)).toBeLessThan(5);
  });

  test("rejects the body it died under, and the next one gets a new thread", async () => {
    const first = nextThread();
    const doomed = checkJsonOffThread(slow);
    const queued = checkJsonOffThread(large(1000));
    const worker = await first;
    const second = nextThread();
    const outcome = Promise.allSettled([doomed]);
    await once(worker, "online");
    await worker.terminate();
    expect((await outcome)[0]).toHaveProperty("reason.message", endedEarly);
    expect(await queued).toEqual(NAMED_A);
    expect(await second).not.toBe(worker);
  });

  test("closing rejects what is under way and what waits, and a later check works", async () => {
    const first = nextThread();
    const outcomes = Promise.allSettled([checkJsonOffThread(slow), checkJsonOffThread(large(1000))]);
    await once(await first, "online");
    await closeJsonChecker();
    const [running, queued] = await outcomes;
    expect(running).toHaveProperty("reason.message", endedEarly);
    expect(queued).toHaveProperty("reason.message", "the JSON checker was closed");
    expect(await checkJsonOffThread(large(1000))).toEqual(NAMED_A);
  });

  test("closing twice, or before any check, does nothing", async () => {
    await closeJsonChecker();
    await closeJsonChecker();
  });
});

test("an idle thread does not keep the process alive, and a check under way does", async () => {
  const module = new URL("../../../src/kit/json/off-thread.ts", import.meta.url);
  const script = `
    import { checkJsonOffThread } from ${JSON.stringify(module.href)};
    const check = (values) => checkJsonOffThread(Buffer.from(\`{"a":[\${"0,".repeat(values)}0]}\`));
    check(1).then(() => check(5_000_000)).then(({ fault }) => console.log("fault:", fault));
  `;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--input-type=module-typescript", "--eval", script],
    { cwd: fileURLToPath(new URL("../../..", import.meta.url)), timeout: 4_000 },
  );
  expect(stdout).toBe("fault: null\n");
});
