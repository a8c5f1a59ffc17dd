import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  FRAME,
  FrameReader,
  HEAD_BYTES,
  LARGE_BYTES,
  packCalls,
  packFrame,
} from "../../../src/replicas/frames.ts";
import { anyFrames } from "../../support/any-frames.ts";
import { BadFrame } from "../../../src/engines/protocol.ts";

type Seen = { readonly type: number; readonly callId: number; readonly payload: string };

/** One frame as a replica would send it. */
function pack(type: number, callId: number, payload: Uint8Array): Buffer {
  const head = packFrame(type, callId);
  head.writeUInt32LE(payload.length, 0);
  return Buffer.concat([head, payload]);
}

/** What a reader makes of bytes that arrive cut at these places. */
function readCut(bytes: Buffer, cuts: readonly number[]): Seen[] {
  const seen: { type: number; callId: number; payload: Buffer }[] = [];
  const reader = anyFrames((type, callId, payload) => seen.push({ type, callId, payload }));
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b);
  for (const [index, place] of places.slice(1).entries()) {
    const piece = Buffer.from(bytes.subarray(places[index], place));
    // What it says it has copied may be freed: payloads must not change with it.
    if (reader.push(piece)) piece.fill(0xee);
  }
  return seen.map(({ payload, ...frame }) => ({ ...frame, payload: payload.toString("hex") }));
}

const frame = fc.record({
  type: fc.integer({ min: 0, max: 255 }),
  callId: fc.integer({ min: 0, max: 0xff_ff_ff_ff }),
  payload: fc.uint8Array({ maxLength: 40 }),
});

test("frames come out whole and in order however the bytes were cut", () => {
  fc.assert(
    fc.property(fc.array(frame, { maxLength: 12 }), fc.array(fc.nat(), { maxLength: 30 }), (frames, cuts) => {
      const bytes = Buffer.concat(frames.map(({ type, callId, payload }) => pack(type, callId, payload)));
      const expected = frames.map(({ type, callId, payload }) => ({
        type,
        callId,
        payload: Buffer.from(payload).toString("hex"),
      }));
      expect(readCut(bytes, cuts)).toEqual(expected);
    }),
  );
});

test("frames come out whole when every byte arrives alone", () => {
  const bytes = Buffer.concat([pack(4, 7, Buffer.from("abc")), pack(9, 8, Buffer.alloc(0))]);
  expect(readCut(bytes, [...bytes.keys()])).toEqual([
    { type: 4, callId: 7, payload: "616263" },
    { type: 9, callId: 8, payload: "" },
  ]);
});

test("half a frame is kept until the rest is here", () => {
  const seen: number[] = [];
  const reader = anyFrames((_, callId) => seen.push(callId));
  const bytes = pack(4, 7, Buffer.alloc(100_000));
  reader.push(bytes.subarray(0, 70_000));
  expect(seen).toEqual([]);
  reader.push(bytes.subarray(70_000));
  expect(seen).toEqual([7]);
});

test("a frame is refused at its head, before its bytes are waited for, and asked about once", () => {
  const asked: number[][] = [];
  const events = {
    admit: (type: number, callId: number, length: number) => {
      asked.push([type, callId, length]);
      if (length > 1_000) throw new BadFrame("too long");
    },
    onFrame: () => {},
  };
  const head = packFrame(4, 1);
  head.writeUInt32LE(0xff_ff_ff_ff, 0);
  for (const cut of [0, 1, 8, 9]) {
    const reader = new FrameReader(events);
    const push = () => [head.subarray(0, cut), head.subarray(cut)].forEach((data) => reader.push(data));
    expect(push).toThrow(BadFrame);
  }
  asked.length = 0;
  const reader = new FrameReader(events);
  for (const byte of pack(7, 3, Buffer.alloc(20))) reader.push(Buffer.from([byte]));
  expect(asked).toEqual([[7, 3, 20]]);
});

test("of a large frame every piece is shown as it comes, of a small one none", () => {
  const shown: number[] = [];
  const whole: number[] = [];
  const reader = new FrameReader({
    admit: () => {},
    onFrame: (_type, _callId, payload) => whole.push(payload.length),
    onPart: (_type, _callId, payload) => shown.push(payload.length),
  });
  const large = pack(4, 1, Buffer.alloc(LARGE_BYTES + 1));
  const small = pack(4, 1, Buffer.alloc(LARGE_BYTES - HEAD_BYTES));
  for (const bytes of [large, small]) {
    for (let at = 0; at < bytes.length; at += 100_000) reader.push(bytes.subarray(at, at + 100_000));
  }
  expect(shown).toEqual([100_000 - HEAD_BYTES, 200_000 - HEAD_BYTES]);
  expect(whole).toEqual([LARGE_BYTES + 1, LARGE_BYTES - HEAD_BYTES]);
});

test("calls carry their runs, their functions and their arguments unchanged, however large", () => {
  const runId = "0190a3c4-0000-7000-8000-000000000001";
  const bodies = [0, 22, 8192, 8193, 20_000];
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...bodies), { minLength: 1, maxLength: 8 }), (sizes) => {
      const calls = sizes.map((size, i) => ({
        wireId: i + 5,
        runId,
        functionName: `run${i}`,
        attempt: i + 1,
        limitMs: 900_000,
        body: Buffer.alloc(size, i),
      }));
      const bytes = Buffer.concat(packCalls(calls));
      expect(readCut(bytes, [3, HEAD_BYTES])).toEqual(
        calls.map(({ wireId, functionName, attempt, body }) => ({
          type: FRAME.CALL,
          callId: wireId,
          payload: Buffer.concat([
            Buffer.from([4, attempt, 0xa0, 0xbb, 0x0d, 0]),
            Buffer.from(runId + functionName),
            body,
          ]).toString("hex"),
        })),
      );
    }),
  );
});

test("small calls leave in one buffer, and a large body is not copied", () => {
  const call = (body: Buffer) => ({
    wireId: 1,
    runId: "r".repeat(36),
    functionName: "run",
    attempt: 1,
    limitMs: 0,
    body,
  });
  const [small, large] = [call(Buffer.from("{}")), call(Buffer.alloc(10_000))];
  expect(packCalls([small, small, small])).toHaveLength(1);
  const parts = packCalls([small, large, small, small]);
  expect(parts).toHaveLength(3);
  expect(parts[1]).toBe(large.body);
});

test("a count travels in the payload", () => {
  expect(readCut(packFrame(FRAME.CREDIT, 3, 258), [])).toEqual([
    { type: FRAME.CREDIT, callId: 3, payload: "02010000" },
  ]);
});
