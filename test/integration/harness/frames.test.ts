import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import path from "node:path";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { FRAME, packBatch, packCalls, packFrame } from "../../../src/replicas/frames.ts";
import { anyFrames } from "../../support/any-frames.ts";
import { REPOSITORY } from "../../support/source-files.ts";

/** Answers each line: `read` gives parts to Python's reader, `pack` and `split` use its other functions. */
const PEER = `
import json, socket, sys
sys.path.insert(0, sys.argv[1])
from millrace_worker import frames
for line in sys.stdin:
    message = json.loads(line)
    if "read" in message:
        ours, theirs = socket.socketpair()
        reader, seen = frames.FrameReader(ours), []
        for part in message["read"]:
            theirs.sendall(bytes.fromhex(part))
            seen += reader.receive()
        theirs.close()
        answer = [[kind, call_id, payload.hex()] for call_id, kind, payload in seen] + [reader.receive()]
    elif "pack" in message:
        kind, call_id, payload = message["pack"]
        answer = frames.pack(kind, call_id, bytes.fromhex(payload)).hex()
    elif "split" in message:
        name, given = frames.split_call(bytes.fromhex(message["split"]))
        answer = [name, [*given[:3], given.body.hex()]]
    else:
        name, calls = frames.split_batch(bytes.fromhex(message["batch"]))
        answer = [name, [[*given[:3], given.body.hex()] for given in calls]]
    print(json.dumps(answer), flush=True)
`;

type Peer = { ask(message: object): Promise<unknown>; end(): void };
let peer: Peer;

beforeAll(() => {
  const child = spawn("python3", ["-c", PEER, path.join(REPOSITORY, "python")], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  peer = {
    ask: async (message) => {
      child.stdin.write(`${JSON.stringify(message)}\n`);
      const { value, done } = await lines.next();
      if (done) throw new Error("the Python side has ended");
      return JSON.parse(value);
    },
    end: () => child.stdin.end(),
  };
});
afterAll(() => peer.end());

type Frame = { readonly type: number; readonly callId: number; readonly payload: Uint8Array };

const frame: fc.Arbitrary<Frame> = fc.record({
  type: fc.constantFrom(...Object.values(FRAME)),
  callId: fc.integer({ min: 0, max: 0xff_ff_ff_ff }),
  payload: fc.uint8Array({ maxLength: 60 }),
});

function bytesOf(frames: readonly Frame[]): Buffer {
  return Buffer.concat(
    frames.flatMap(({ type, callId, payload }) => {
      const head = packFrame(type, callId);
      head.writeUInt32LE(payload.length, 0);
      return [head, Buffer.from(payload)];
    }),
  );
}

/** Cuts at the given places, each a fraction of the whole; parts stay smaller than a socket's buffer. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const steps = Array.from({ length: Math.floor(bytes.length / 65_536) }, (_, index) => (index + 1) * 65_536);
  const ends = [...places.map((place) => Math.floor(place * bytes.length)), ...steps, bytes.length];
  const parts: Buffer[] = [];
  let start = 0;
  for (const end of ends.toSorted((a, b) => a - b)) {
    if (end > start) parts.push(bytes.subarray(start, end));
    start = end;
  }
  return parts;
}

function readHere(parts: readonly Buffer[]): unknown[] {
  const seen: unknown[] = [];
  const reader = anyFrames((type, callId, payload) => seen.push([type, callId, payload.toString("hex")]));
  for (const part of parts) reader.push(Buffer.from(part));
  return seen;
}

const expected = (frames: readonly Frame[]): unknown[] =>
  frames.map(({ type, callId, payload }) => [type, callId, Buffer.from(payload).toString("hex")]);

test("both sides read the same frames, wherever the bytes are cut", async () => {
  const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(fc.array(frame, { maxLength: 12 }), cuts, async (frames, places) => {
      const parts = cut(bytesOf(frames), places);
      expect(readHere(parts)).toEqual(expected(frames));
      const there = await peer.ask({ read: parts.map((part) => part.toString("hex")) });
      // Python's reader ends with null, as at the end of a connection.
      expect(there).toEqual([...expected(frames), null]);
    }),
    { numRuns: 150 },
  );
});

test("both sides read frames byte by byte, and one of a megabyte", async () => {
  const small = Object.values(FRAME).map((type, index) => ({
    type,
    callId: index * 65_537,
    payload: Buffer.from("x".repeat(index)),
  }));
  const single = [...bytesOf(small)].map((byte) => Buffer.from([byte]));
  expect(readHere(single)).toEqual(expected(small));
  expect(await peer.ask({ read: single.map((part) => part.toString("hex")) })).toEqual([
    ...expected(small),
    null,
  ]);
  const large = [...small, { type: FRAME.RESULT, callId: 7, payload: Buffer.alloc(1 << 20, "y") }, ...small];
  const parts = cut(bytesOf(large), [0.001, 0.5, 0.999]);
  expect(readHere(parts)).toEqual(expected(large));
  expect(await peer.ask({ read: parts.map((part) => part.toString("hex")) })).toEqual([
    ...expected(large),
    null,
  ]);
});

test("both sides write the same bytes", async () => {
  for (const type of Object.values(FRAME)) {
    const count = Buffer.alloc(4);
    count.writeUInt32LE(70_000);
    expect(await peer.ask({ pack: [type, 0xff_ff_ff_ff, ""] })).toBe(
      packFrame(type, 0xff_ff_ff_ff).toString("hex"),
    );
    expect(await peer.ask({ pack: [type, 5, count.toString("hex")] })).toBe(
      packFrame(type, 5, 70_000).toString("hex"),
    );
  }
});

const CALL = {
  wireId: 3,
  runId: "01a1dda2-f61e-745a-83ae-ee9477d393e4",
  functionName: "a_name",
  // More than the frame can say.
  attempt: 300,
  limitMs: 900_000,
};

test("Python finds the calls of a batch, however large", async () => {
  const sizes = [0, 2, 8192, 8193, 20_000];
  await fc.assert(
    fc.asyncProperty(fc.array(fc.constantFrom(...sizes), { minLength: 1, maxLength: 9 }), async (bodies) => {
      const calls = bodies.map((size, i) => ({ ...CALL, attempt: i, body: Buffer.alloc(size, i) }));
      const bytes = Buffer.concat(packBatch(calls));
      const payload = bytes.subarray(9).toString("hex");
      expect(readHere([bytes])).toEqual([[FRAME.BATCH, 3, payload]]);
      const members = calls.map(({ runId, attempt, limitMs, body }) => [
        runId,
        attempt,
        limitMs,
        body.toString("hex"),
      ]);
      expect(await peer.ask({ batch: payload })).toEqual(["a_name", members]);
    }),
    { numRuns: 20 },
  );
});

test("Python finds the name, the run and the arguments of a call, small or large", async () => {
  for (const body of ["", "{}", `{"text":"${"ü".repeat(10)}"}`, `{"text":"${"z".repeat(20_000)}"}`].map(
    (text) => Buffer.from(text),
  )) {
    const bytes = Buffer.concat(packCalls([{ ...CALL, body }]));
    expect(readHere([bytes])).toEqual([[FRAME.CALL, 3, bytes.subarray(9).toString("hex")]]);
    const split = await peer.ask({ split: bytes.subarray(9).toString("hex") });
    expect(split).toEqual(["a_name", [CALL.runId, 255, 900_000, body.toString("hex")]]);
  }
});
