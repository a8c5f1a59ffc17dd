import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { execFile } from "node:child_process";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  checkJsonOffThread,
  closeJsonChecker,
  OFF_THREAD_BYTES,
} from "../../../src/gateway/json/off-thread.ts";
import type { BodyPiece } from "../../../src/gateway/json/thread.ts";
import { checkJson } from "../../../src/kit/json/check-json.ts";

const MIB = 1024 * 1024;
const NAMED_A = { fault: null, names: ["a"] };
const large = (bytes: number) => Buffer.from(`{"a":"${"x".repeat(bytes - 8)}"}`);

/** Half a second's work for the thread, so that it can be ended in the middle of it. */
const slow = Buffer.from(`{${Array.from({ length: 600_000 }, (_, i) => `"key${i}":0`).join(",")}}`);

const endedEarly: unknown = expect.stringMatching(/^the JSON checking thread ended with code/);

/** How many bytes the thread is sent in each turn of the event loop during a check. */
async function bytesByTurn(body: Buffer): Promise<number[]> {
  const sent = new Map<number, number>();
  let turn = 0;
  // oxlint-disable-next-line unbound-method -- it is called with its own worker
  const original = Worker.prototype.postMessage;
  const post = vi.spyOn(Worker.prototype, "postMessage").mockImplementation(function (
    this: Worker,
    message: BodyPiece,
    moved,
  ) {
    sent.set(turn, (sent.get(turn) ?? 0) + message.piece.byteLength);
    Reflect.apply(original, this, [message, moved]);
  });
  try {
    const progress = { isOver: false };
    const check = checkJsonOffThread(body).finally(() => (progress.isOver = true));
    for (; !progress.isOver; turn++) await setImmediate();
    expect(await check).toEqual(NAMED_A);
  } finally {
    post.mockRestore();
  }
  return [...sent.values()];
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
    const body = large(16 * MIB);
    for (let i = 0; i < 4; i++) await checkJsonOffThread(body);
    const before = process.memoryUsage.rss();
    for (let i = 0; i < 16; i++) await checkJsonOffThread(body);
    // All of them kept would be 256 MiB.
    expect(process.memoryUsage.rss() - before).toBeLessThan(150 * MIB);
  });

  test("is started once and used again", async () => {
    const started: Worker[] = [];
    const note = (worker: Worker) => started.push(worker);
    process.on("worker", note);
    for (let i = 0; i < 3; i++) await checkJsonOffThread(large(1000));
    process.off("worker", note);
    expect(started).toHaveLength(1);
  });

  test("is sent 32 MiB piece by piece: the event loop turns in between", async () => {
    const sent = await bytesByTurn(large(32 * MIB));
    expect(sent.reduce((sum, bytes) => sum + bytes)).toBe(32 * MIB);
    expect(Math.max(...sent)).toBeLessThanOrEqual(MIB);
  });

  type Interrupted = {
    readonly running: PromiseRejectedResult;
    readonly queued: PromiseSettledResult<unknown>;
    readonly threads: readonly Worker[];
  };

  /** Ends the thread in the middle of a check behind which another waits; tries again if the check was quicker. */
  async function interrupted(end: (worker: Worker) => Promise<unknown>): Promise<Interrupted> {
    for (;;) {
      const threads: Worker[] = [];
      const note = (worker: Worker) => threads.push(worker);
      process.on("worker", note);
      const outcomes = Promise.allSettled([checkJsonOffThread(slow), checkJsonOffThread(large(1000))]);
      const [first] = (await once(process, "worker")) as [Worker];
      await once(first, "online");
      await end(first);
      const [running, queued] = await outcomes;
      process.off("worker", note);
      if (running.status === "rejected") return { running, queued, threads };
      await closeJsonChecker();
    }
  }

  test("rejects the body it died under, and the next one gets a new thread", async () => {
    const { running, queued, threads } = await interrupted((worker) => worker.terminate());
    expect(running).toHaveProperty("reason.message", endedEarly);
    expect(queued).toEqual({ status: "fulfilled", value: NAMED_A });
    expect(threads).toHaveLength(2);
  });

  test("closing rejects what is under way and what waits, and a later check works", async () => {
    const { running, queued } = await interrupted(closeJsonChecker);
    expect(running).toHaveProperty("reason.message", endedEarly);
    expect(queued).toHaveProperty("reason.message", "the JSON checker was closed");
    expect(await checkJsonOffThread(large(1000))).toEqual(NAMED_A);
  });

  test("closing twice, or before any check, does nothing", async () => {
    await closeJsonChecker();
    await closeJsonChecker();
  });
});

test("an idle thread does not keep the process alive, and a check under way does", async ({ signal }) => {
  const module = new URL("../../../src/gateway/json/off-thread.ts", import.meta.url);
  const script = `
    import { checkJsonOffThread } from ${JSON.stringify(module.href)};
    const check = (values) => checkJsonOffThread(Buffer.from(\`{"a":[\${"0,".repeat(values)}0]}\`));
    check(1).then(() => check(5_000_000)).then(({ fault }) => console.log("fault:", fault));
  `;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--input-type=module-typescript", "--eval", script],
    { cwd: fileURLToPath(new URL("../../..", import.meta.url)), signal },
  );
  expect(stdout).toBe("fault: null\n");
});
