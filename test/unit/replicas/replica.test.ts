import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Exit } from "../../../src/engines/engine.ts";
import { Call } from "../../../src/replicas/call.ts";
import { anyFrames } from "../../support/any-frames.ts";
import { HandClock } from "../../support/clocks.ts";
import { liveBytes } from "../../support/live-memory.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { frame } from "../../support/hostile/mutate.ts";
import { FRAME } from "../../../src/replicas/frames.ts";
import { Replica } from "../../../src/replicas/replica.ts";

/** Both ends of a connection. */
async function connection(): Promise<{ readonly here: Socket; readonly there: Socket }> {
  const folder = mkdtempSync(path.join(tmpdir(), "wire-"));
  const server = createServer().listen(path.join(folder, "s"));
  await once(server, "listening");
  const there = connect(path.join(folder, "s"));
  const [here] = (await once(server, "connection")) as [Socket];
  onTestFinished(async () => {
    here.destroy();
    there.destroy();
    await new Promise((resolve) => server.close(resolve));
    rmSync(folder, { recursive: true, force: true });
  });
  return { here, there };
}

const NOTHING = {
  onReady: () => {},
  onOutcome: () => {},
  onWithdrawn: () => {},
  onEnding: () => {},
  onGranted: () => {},
  onSilence: () => {},
  onGone: () => {},
  onLog: () => {},
  onError: () => {},
};
const LIMITS = { maxResultBytes: 1024, maxChunkBytes: 1024 };

test("a call leaves with the id it was handed over with, even if it is in other hands by then", async () => {
  const { here, there } = await connection();
  const seen: number[] = [];
  const reader = anyFrames((type, callId) => {
    expect(type).toBe(FRAME.CALL);
    seen.push(callId);
  });
  there.on("data", (data: Buffer) => reader.push(data));
  const replica = new Replica("r-first", { clock: new HandClock(), events: NOTHING, limits: LIMITS });
  replica.attach("wire", here);
  const calls = Array.from({ length: 2 }, (_, i) => {
    const runId = `0190a3c4-0000-7000-8000-00000000000${i}`;
    return new Call(runId, "run", Buffer.from("{}"), { onEnd: () => {} });
  });
  for (const call of calls) replica.hand(call, 0);
  // Withdrawn, and handed to another replica in the same tick.
  calls[0]!.wireId = 77;
  await expect.poll(() => seen).toEqual([1, 2]);
});

test("one that is ready keeps nothing of what it said in its HELLO", async () => {
  const [wire, control] = [await connection(), await connection()];
  const told: WeakRef<object>[] = [];
  const events = { ...NOTHING, onReady: (functions: object) => void told.push(new WeakRef(functions)) };
  const replica = new Replica("r-ready", { clock: new HandClock(), events, limits: LIMITS });
  replica.attach("wire", wire.here);
  replica.attach("control", control.here);
  const payload = Buffer.from(JSON.stringify({ pid: 1, python: "3.12.0", functions: [] }));
  const head = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, FRAME.HELLO]);
  head.writeUInt32LE(payload.length, 0);
  wire.there.write(Buffer.concat([head, payload]));
  await until("it is ready", () => replica.state === "ready");
  await liveBytes();
  expect(told.map((functions) => functions.deref())).toEqual([undefined]);
  expect(replica.state).toBe("ready");
});

test("one that is not ready in time says whether main.py or its setup() took so long", async () => {
  for (const [isImported, what] of [
    [false, "main.py was not ready"],
    [true, "setup() in main.py did not end"],
  ] as const) {
    const { here } = await connection();
    const clock = new HandClock();
    const gone = Promise.withResolvers<Exit>();
    const onGone = (exit: Exit): void => gone.resolve(exit);
    const replica = new Replica("r-late", { clock, events: { ...NOTHING, onGone }, limits: LIMITS });
    const { promise: exited, resolve } = Promise.withResolvers<Exit>();
    const kill = (): void => resolve({ detail: "killed by SIGKILL", initFailure: null });
    replica.bindTo({ exited, kill, vitals: () => null, usage: async () => null }, 60);
    if (isImported) replica.attach("control", here);
    clock.advance(60_000);
    await clock.passDuring(gone.promise);
    const { initFailure } = await gone.promise;
    expect(initFailure).toMatchObject({
      message: `${what} within deployment_initialization_timeout (60 s)`,
      isTimeout: true,
    });
  }
});

/** A replica that is ready, and the process's ends of its connections. */
async function readyReplica(clock: HandClock, onGone: (exit: Exit) => void = () => {}) {
  const [wire, control] = [await connection(), await connection()];
  const events = { ...NOTHING, onGone };
  const replica = new Replica("r-ready", { clock, events, limits: LIMITS });
  const { promise: exited, resolve } = Promise.withResolvers<Exit>();
  const kill = (): void => resolve({ detail: "killed by SIGKILL", initFailure: null });
  replica.bindTo({ exited, kill, vitals: () => null, usage: async () => null }, 60);
  replica.attach("wire", wire.here);
  replica.attach("control", control.here);
  const hello = JSON.stringify({ pid: 1, python: "3.12.0", functions: [] });
  wire.there.write(frame(FRAME.HELLO, 0, hello));
  await until("it is ready", () => replica.state === "ready");
  return { replica, wire: wire.there, control: control.there };
}

const RUN_ID = "0190a3c4-0000-7000-8000-000000000001";
const half = frame(FRAME.PROGRESS, 1, Buffer.from([0, 0, 0, 0, 0, 0, 0xe0, 0x3f]));

verifies(
  "checkpoint.hostile",
  "a process that reports without end is ended; one in step is not",
  async () => {
    const clock = new HandClock();
    const gone: string[] = [];
    const { replica, wire } = await readyReplica(clock, ({ detail }) => gone.push(detail));
    let reports = 0;
    const call = new Call(RUN_ID, "run", Buffer.from("{}"), {
      onProgress: () => void reports++,
      onEnd: () => {},
    });
    replica.hand(call, clock.monotonic());
    for (let second = 0; second < 100; second++) {
      clock.advance(1_000);
      for (let i = 0; i < 10; i++) wire.write(half);
      await until("they have come", () => reports === (second + 1) * 10);
    }
    expect(gone).toEqual([]);
    wire.write(Buffer.concat(Array.from({ length: 10_000 }, () => half)));
    await until("it is gone", () => gone.length > 0);
    expect(gone[0]).toMatch(/PROGRESS more often than any harness sends it/);
  },
);

verifies("checkpoint.next-attempt", "a call that continues brings what the last attempt left", async () => {
  const { replica, wire, control } = await readyReplica(new HandClock());
  const seen: unknown[] = [];
  const toReplica = anyFrames((type, callId, payload) => {
    if (type === FRAME.CALL) seen.push(["call", callId]);
    if (type === FRAME.RESUME)
      seen.push([
        "resume",
        callId,
        Number(payload.readBigUInt64LE(0)),
        Number(payload.readBigUInt64LE(8)),
        payload.subarray(16).toString(),
      ]);
    if (type === FRAME.CHECKPOINTED) seen.push(["checkpointed", callId, payload.readUInt32LE(0)]);
  });
  wire.on("data", (data: Buffer) => toReplica.push(data));
  control.on("data", (data: Buffer) => toReplica.push(data));
  const waiting: ((answer: "stored") => void)[] = [];
  const reader = {
    onCheckpoint: (_value: Buffer, answer: (kind: "stored") => void) => void waiting.push(answer),
    onEnd: () => {},
  };
  const plain = new Call(RUN_ID, "run", Buffer.from("{}"), { onEnd: () => {} });
  const call = new Call(RUN_ID, "run", Buffer.from("{}"), reader);
  call.resume = { value: Buffer.from("[7]"), sent: 2 ** 40, checkpointSent: 3 };
  replica.hand(plain, 0);
  replica.hand(call, 0);
  await until("both are there", () => seen.length === 3);
  expect(seen).toEqual([
    ["call", 1],
    ["resume", 2, 2 ** 40, 3, "[7]"],
    ["call", 2],
  ]);
  // The first has no one to store it.
  wire.write(Buffer.concat([frame(FRAME.CHECKPOINT, 1, "1"), frame(FRAME.CHECKPOINT, 2, "1")]));
  await until("they have come", () => waiting.length === 1 && seen.length === 4);
  waiting[0]?.("stored");
  await until("it is answered", () => seen.length === 5);
  expect(seen.slice(3)).toEqual([
    ["checkpointed", 1, 1],
    ["checkpointed", 2, 0],
  ]);
  // Once it is over, no answer is due.
  wire.write(frame(FRAME.CHECKPOINT, 2, "2"));
  await until("it has come", () => waiting.length === 2);
  wire.write(frame(FRAME.FAILED, 2, JSON.stringify({ kind: "no_function" })));
  await until("it is over", () => call.phase === "over");
  waiting[1]?.("stored");
  expect(seen).toHaveLength(5);
});
