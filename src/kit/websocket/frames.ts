import { randomBytes } from "node:crypto";

/** The opcodes that matter to somebody in between. */
export const CLOSE = 0x8;
const PING = 0x9;
export const PONG = 0xa;

const FIN = 0x80;
const MASKED = 0x80;
const MASK_BYTES = 4;
const SHORT = 126;
const LONG = 127;
/** Lengths from here on are beyond what a number can count, and nobody sends so much. */
const UNCOUNTABLE_HIGH = 0x200000;
/** The largest payload of a control frame. */
const MAX_CONTROL_BYTES = 125;

/** The beginning of a frame. */
export type FrameHead = {
  readonly isFinal: boolean;
  readonly opcode: number;
  /** With the length and the mask. */
  readonly size: number;
  /** Of the payload; infinite where it cannot be counted. */
  readonly length: number;
  readonly isMasked: boolean;
};

/** Reads the head of a frame; null if it is not whole. Nothing in it is judged: that is for those at the ends. */
export function readFrameHead(data: Buffer, at: number): FrameHead | null {
  const left = data.length - at;
  if (left < 2) return null;
  const first = data[at] ?? 0;
  const second = data[at + 1] ?? 0;
  const short = second & 0x7f;
  const lengthBytes = short === LONG ? 8 : short === SHORT ? 2 : 0;
  const isMasked = (second & MASKED) !== 0;
  const size = 2 + lengthBytes + (isMasked ? MASK_BYTES : 0);
  if (left < size) return null;
  return {
    isFinal: (first & FIN) !== 0,
    opcode: first & 0x0f,
    size,
    length:
      lengthBytes === 0 ? short : lengthBytes === 2 ? data.readUInt16BE(at + 2) : longLength(data, at + 2),
    isMasked,
  };
}

function longLength(data: Buffer, at: number): number {
  const high = data.readUInt32BE(at);
  if (high >= UNCOUNTABLE_HIGH) return Number.POSITIVE_INFINITY;
  return high * 2 ** 32 + data.readUInt32BE(at + 4);
}

/** The payload of the frame that begins there, without its mask, which is the end of the head. */
export function payloadOf(data: Buffer, at: number, { size, length, isMasked }: FrameHead): Buffer {
  const from = at + size;
  const mask = isMasked ? data.subarray(from - MASK_BYTES, from) : null;
  return unmasked(data.subarray(from, from + length), mask);
}

function unmasked(payload: Buffer, mask: Buffer | null): Buffer {
  return mask === null
    ? payload
    : Buffer.from(payload.map((byte, at) => byte ^ (mask[at % MASK_BYTES] ?? 0)));
}

/** A ping; towards a server it has to be masked. */
export function pingFrame(payload: Buffer, isMasked: boolean): Buffer {
  return controlFrame(PING, payload, isMasked);
}

/** A close frame with its reason, which is cut where it is too long. */
export function closeFrame(code: number, reason: string, isMasked: boolean): Buffer {
  const payload = Buffer.alloc(2 + Buffer.byteLength(reason));
  payload.writeUInt16BE(code);
  payload.write(reason, 2);
  return controlFrame(CLOSE, payload.subarray(0, MAX_CONTROL_BYTES), isMasked);
}

function controlFrame(opcode: number, payload: Buffer, isMasked: boolean): Buffer {
  const mask = isMasked ? randomBytes(MASK_BYTES) : null;
  const head = [FIN | opcode, (mask ? MASKED : 0) | payload.length];
  return Buffer.concat([Buffer.from(head), mask ?? Buffer.alloc(0), unmasked(payload, mask)]);
}
