import { FRAME, HEAD_BYTES } from "../../../src/replicas/frames.ts";
import type { Random } from "./random.ts";

const KIB = 1024;
const TYPES = [...Object.values(FRAME), 0, 10, 31, 38, 64, 127, 255];
const LENGTHS = [
  0,
  1,
  7,
  9,
  10,
  11,
  65_535,
  65_536,
  300 * KIB,
  600 * KIB,
  2 ** 21,
  2 ** 30,
  2 ** 31,
  2 ** 32 - 1,
];

/** A frame as a replica would send it; `length` in place of the payload's own. */
export function frame(
  type: number,
  callId: number,
  payload: Uint8Array | string = "",
  length?: number,
): Buffer {
  const body = Buffer.from(payload as string);
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32LE(length ?? body.length, 0);
  head.writeUInt32LE(callId >>> 0, 4);
  head[8] = type;
  return Buffer.concat([head, body]);
}

/** Values that nobody expects in JSON, as text. */
const ODD = [
  "null",
  "-1",
  "0",
  "1e999",
  "1.5",
  '""',
  "[]",
  "{}",
  "true",
  '"\\u0000"',
  '"\\ud800"',
  "99999999999999999999",
  `"${"x".repeat(9_000)}"`,
  `"${"x".repeat(300 * KIB)}"`,
  "[".repeat(5_000) + "]".repeat(5_000),
  '{"__proto__":1}',
  "NaN",
  '"',
  "[1",
  '{"a":}',
];

/** JSON with one of its values put in place of another, or its text damaged. */
export function mutateJson(random: Random, value: unknown): Buffer {
  const text = JSON.stringify(value);
  const places = [...text.matchAll(/(?<=[:,[])(?:"[^"]*"|-?\d+(?:\.\d+)?|true|false|null)/g)];
  const place = random.pick(places);
  if (place && random.chance(0.7)) {
    return Buffer.from(
      text.slice(0, place.index) + random.pick(ODD) + text.slice(place.index + place[0].length),
    );
  }
  const bytes = Buffer.from(text);
  if (random.chance(0.3)) return bytes.subarray(0, random.below(bytes.length + 1));
  bytes[random.below(bytes.length)] = random.below(256);
  return bytes;
}

/** Changes frames as nobody should: bits, lengths, types, ids, order, number. */
export function mutateFrames(random: Random, frames: readonly Buffer[]): Buffer[] {
  let changed: Buffer[] = frames.map((each) => Buffer.from(each));
  for (let times = 1 + random.below(3); times > 0 && changed.length > 0; times--) {
    changed = mutateOnce(random, changed);
  }
  return changed;
}

function mutateOnce(random: Random, frames: Buffer[]): Buffer[] {
  const place = random.below(frames.length);
  const chosen = frames[place]!;
  switch (random.below(10)) {
    case 0:
      if (chosen.length > 0) chosen[random.below(chosen.length)] = random.below(256);
      return frames;
    case 1:
      if (chosen.length >= 4) chosen.writeUInt32LE(random.pick(LENGTHS), 0);
      return frames;
    case 2:
      if (chosen.length >= HEAD_BYTES) chosen[8] = random.pick(TYPES);
      return frames;
    case 3:
      if (chosen.length >= 8) chosen.writeUInt32LE(random.pick([0, 1, 2, 3, 2 ** 32 - 1, 4711]), 4);
      return frames;
    case 4:
      return frames.toSpliced(place, 1, chosen.subarray(0, random.below(chosen.length + 1)));
    case 5:
      return frames.toSpliced(place, 0, chosen);
    case 6:
      return frames.toSpliced(place, 1);
    case 7:
      return frames.toSpliced(place, 0, random.bytes(random.below(40)));
    case 8:
      return [...frames.slice(place), ...frames.slice(0, place)];
    default:
      return frames.toReversed();
  }
}

/** Bytes in pieces, as a connection may bring them. */
export function inPieces(random: Random, bytes: Buffer): Buffer[] {
  if (bytes.length === 0 || random.chance(0.7)) return [bytes];
  const pieces: Buffer[] = [];
  const most = random.pick([1, 3, 10, 1_000, 70_000]);
  // Byte by byte only as far as it is worth the time.
  for (let at = 0; at < bytes.length;) {
    const size = pieces.length > 200 ? bytes.length : 1 + random.below(most);
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}
