import * as fc from "fast-check";
import { expect } from "vitest";
import { closeFrame, Lane, payloadOf, pingFrame, readFrameHead } from "../../../../src/kit/websocket/lane.ts";
import { MASK, frame } from "../../../support/socket-frames.ts";
import { verifies } from "../../../verifies.ts";

const MARK = Buffer.from("ping of ours");

function laneTo(passed: Buffer[]): Lane {
  return new Lane(MARK, {
    write: (bytes) => passed.push(Buffer.from(bytes)) > 0,
    onShut: () => passed.push(Buffer.from("END")),
  });
}

const anyFrame = fc
  .record({
    opcode: fc.integer({ min: 0, max: 15 }),
    isFinal: fc.boolean(),
    reserved: fc.integer({ min: 0, max: 7 }),
    mask: fc.constantFrom(MASK, null),
    payload: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
    lengthBytes: fc.constantFrom(2, 8),
  })
  .map((parts) => frame(parts));

/** A stream of frames, and where it is cut into pieces. */
const anyStream = fc.record({
  frames: fc.array(anyFrame, { minLength: 1, maxLength: 8 }),
  cuts: fc.array(fc.nat(2_000), { maxLength: 12 }),
});

function pieces(frames: readonly Buffer[], cuts: readonly number[]): Buffer[] {
  const bytes = Buffer.concat(frames);
  const places = [...new Set([0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length])].toSorted(
    (a, b) => a - b,
  );
  return places.slice(1).map((end, index) => bytes.subarray(places[index], end));
}

verifies("servers.sockets.frames", "frames of any kind, cut anywhere, pass as they came", () => {
  fc.assert(
    fc.property(anyStream, ({ frames, cuts }) => {
      const passed: Buffer[] = [];
      const lane = laneTo(passed);
      for (const piece of pieces(frames, cuts)) lane.feed(piece);
      expect(Buffer.concat(passed).toString("hex")).toBe(Buffer.concat(frames).toString("hex"));
    }),
  );
});

verifies("servers.sockets.frames", "a frame of ours goes in between two others, whenever it comes", () => {
  fc.assert(
    fc.property(anyStream, fc.nat(12), fc.boolean(), ({ frames, cuts }, at, isClose) => {
      const passed: Buffer[] = [];
      const lane = laneTo(passed);
      const own = isClose ? closeFrame(1012, "come again", false) : pingFrame(MARK, false);
      const all = pieces(frames, cuts);
      all.forEach((piece, index) => {
        if (index === at % all.length) {
          if (isClose) lane.shut(own);
          else lane.put(own);
        }
        lane.feed(piece);
      });
      const ends = frames.map((_, index) => Buffer.concat(frames.slice(0, index + 1)).toString("hex"));
      const text = Buffer.concat(passed).toString("hex");
      // A close frame of the sender's own leaves nothing to say.
      if (isClose && lane.hasClosed) return;
      const mark = own.toString("hex");
      const before = text.slice(0, text.indexOf(mark));
      expect(["", ...ends]).toContain(before);
      const rest = isClose ? Buffer.from("END").toString("hex") : (ends.at(-1) ?? "").slice(before.length);
      expect(text).toBe(before + mark + rest);
    }),
  );
});

verifies("servers.sockets.frames", "answers to our pings are taken out, those to others' pass", () => {
  for (const mask of [MASK, null]) {
    const [ours, others] = [MARK, Buffer.from("someone else")].map((payload) =>
      frame({ opcode: 10, mask, payload }),
    ) as [Buffer, Buffer];
    const text = frame({ mask });
    for (let cut = 0; cut <= ours.length; cut++) {
      const passed: Buffer[] = [];
      const lane = laneTo(passed);
      lane.feed(Buffer.concat([text, ours.subarray(0, cut)]));
      lane.feed(Buffer.concat([ours.subarray(cut), others, text]));
      expect(Buffer.concat(passed).equals(Buffer.concat([text, others, text]))).toBe(true);
      expect(lane.passedBytes).toBe(2 * text.length + others.length);
    }
  }
});

verifies("servers.sockets.frames", "what is held of a frame passes when its sender ends", () => {
  const passed: Buffer[] = [];
  const lane = laneTo(passed);
  lane.feed(Buffer.from([0x81]));
  expect(passed).toEqual([]);
  lane.end();
  expect(passed).toEqual([Buffer.from([0x81])]);
});

verifies("servers.sockets.frames", "a length that nobody can count never ends", () => {
  const head = readFrameHead(frame({ length: 2n ** 63n, lengthBytes: 8, payload: Buffer.alloc(0) }), 0);
  expect(head?.length).toBe(Number.POSITIVE_INFINITY);
});

verifies("servers.sockets.close", "a reason that is too long is cut to what a close frame can hold", () => {
  const bytes = closeFrame(1001, "x".repeat(500), true);
  const head = readFrameHead(bytes, 0);
  expect([head?.length, bytes.length]).toEqual([125, 131]);
  const payload = head ? payloadOf(bytes, 0, head) : Buffer.alloc(0);
  expect([payload.readUInt16BE(), payload.toString("latin1", 2)]).toEqual([1001, "x".repeat(123)]);
});
