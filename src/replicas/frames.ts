import { GrowingBytes, writeAscii } from "../kit/bytes.ts";

/**
 * Frames of the wire and of the control connection: payload length, call id (both u32, little endian), type
 * (u8), payload. `docs/wire.md` holds the same table; a test compares it with this file and with Python's.
 */
export const FRAME = {
  CALL: 1,
  HELLO: 2,
  INIT_FAILED: 3,
  RESULT: 4,
  FAILED: 5,
  STREAM: 6,
  CHUNK: 7,
  END: 8,
  CANCELLED: 9,
  CANCEL: 32,
  WITHDRAW: 33,
  CREDIT: 34,
  STOP: 35,
  WITHDRAWN: 36,
  BEGUN: 37,
  PING: 38,
  PONG: 39,
} as const;

export const HEAD_BYTES = 9;
const RUN_ID_BYTES = 36;

/** Bytes of CHUNK frames a stream may send before it is granted more; the same on both sides. */
export const INITIAL_CREDIT_BYTES = 65_536;

/** A frame without a payload, or with a count. */
export function packFrame(type: number, callId: number, count?: number): Buffer {
  const frame = Buffer.allocUnsafe(HEAD_BYTES + (count === undefined ? 0 : 4));
  frame.writeUInt32LE(frame.length - HEAD_BYTES, 0);
  frame.writeUInt32LE(callId, 4);
  frame[8] = type;
  if (count !== undefined) frame.writeUInt32LE(count, HEAD_BYTES);
  return frame;
}

/** The content of a CALL frame. */
export type PackedCall = {
  readonly wireId: number;
  readonly runId: string;
  readonly functionName: string;
  /** The arguments' bytes, sent unchanged. */
  readonly body: Buffer;
};

/** The frames of many calls in as few buffers as possible; only large bodies stay in their own. */
export function packCalls(calls: readonly PackedCall[]): Buffer[] {
  let bytes = 0;
  for (const call of calls) bytes += headBytes(call) + (isCopied(call) ? call.body.length : 0);
  const frames = Buffer.allocUnsafe(bytes);
  const parts: Buffer[] = [];
  let start = 0;
  let at = 0;
  for (const call of calls) {
    at = writeHead(call, frames, at);
    if (isCopied(call)) {
      frames.set(call.body, at);
      at += call.body.length;
    } else {
      parts.push(frames.subarray(start, at), call.body);
      start = at;
    }
  }
  if (start < at) parts.push(start === 0 ? frames : frames.subarray(start));
  return parts;
}

/** PLACEHOLDER until the harness branch. */
export function packBatch(calls: readonly PackedCall[]): Buffer[] {
  return packCalls(calls);
}

/** Copying a few kilobytes costs less than a second write. */
function isCopied({ body }: PackedCall): boolean {
  return body.length <= 8192;
}

function headBytes({ functionName }: PackedCall): number {
  return HEAD_BYTES + 1 + RUN_ID_BYTES + functionName.length;
}

/** Writes a call's frame up to its body; returns where the body begins. */
function writeHead(call: PackedCall, frames: Buffer, at: number): number {
  const { wireId, runId, functionName, body } = call;
  const end = at + headBytes(call);
  frames.writeUInt32LE(end - at - HEAD_BYTES + body.length, at);
  frames.writeUInt32LE(wireId, at + 4);
  frames[at + 8] = FRAME.CALL;
  frames[at + 9] = functionName.length;
  frames.write(runId, at + 10, RUN_ID_BYTES, "latin1");
  writeAscii(functionName, frames, at + 10 + RUN_ID_BYTES);
  return end;
}

/** The pieces of larger frames are reported as they arrive, so that they can be checked bit by bit. */
export const LARGE_BYTES = 256 * 1024;

/** The callbacks of a reader of frames. */
export type FrameEvents = {
  /** Called with a frame's head, before its payload is kept; throws `BadFrame` for an illegal frame. */
  admit(type: number, callId: number, length: number): void;
  /** A whole frame. The payload is a view into what arrived, not a copy. */
  onFrame(type: number, callId: number, payload: Buffer): void;
  /** The part of a large payload that has arrived so far. */
  onPart?(type: number, callId: number, payload: Buffer): void;
};

/** Cuts data into frames. It holds at most one unfinished frame, which was admitted. */
export class FrameReader {
  readonly #events: FrameEvents;
  /** An unfinished frame, from its head on. */
  readonly #open = new GrowingBytes();
  /** The length of the unfinished frame, once its head is complete and admitted. */
  #openBytes = HEAD_BYTES;

  constructor(events: FrameEvents) {
    this.#events = events;
  }

  /** Returns whether all of it was copied, so that `data` can be reused. */
  push(data: Buffer): boolean {
    let at = this.#open.length > 0 ? this.#continue(data) : 0;
    let isCopied = true;
    while (data.length - at >= HEAD_BYTES) {
      const bytes = this.#admit(data, at);
      const end = at + bytes;
      if (data.length < end) {
        this.#openBytes = bytes;
        break;
      }
      const start = at + HEAD_BYTES;
      at = end;
      isCopied = false;
      this.#events.onFrame(data[start - 1]!, data.readUInt32LE(start - 5), data.subarray(start, end));
    }
    if (at < data.length) {
      this.#open.add(data, at, data.length, this.#openBytes);
      this.#showPart();
    }
    return isCopied;
  }

  /** Adds to the unfinished frame; returns where the next one begins. */
  #continue(data: Buffer): number {
    const open = this.#open;
    let at = 0;
    if (open.length < HEAD_BYTES) {
      at = Math.min(data.length, HEAD_BYTES - open.length);
      open.add(data, 0, at);
      if (open.length < HEAD_BYTES) return at;
      this.#openBytes = this.#admit(open.view, 0);
    }
    const end = Math.min(data.length, at + this.#openBytes - open.length);
    open.add(data, at, end, this.#openBytes);
    if (open.length < this.#openBytes) {
      this.#showPart();
      return end;
    }
    this.#openBytes = HEAD_BYTES;
    const frame = open.take();
    this.#events.onFrame(frame[HEAD_BYTES - 1]!, frame.readUInt32LE(4), frame.subarray(HEAD_BYTES));
    return end;
  }

  /** The length of the frame whose head is at `at`. */
  #admit(data: Buffer, at: number): number {
    const length = data.readUInt32LE(at);
    this.#events.admit(data[at + HEAD_BYTES - 1]!, data.readUInt32LE(at + 4), length);
    return HEAD_BYTES + length;
  }

  #showPart(): void {
    if (this.#openBytes <= LARGE_BYTES) return;
    const frame = this.#open.view;
    this.#events.onPart?.(frame[HEAD_BYTES - 1]!, frame.readUInt32LE(4), frame.subarray(HEAD_BYTES));
  }
}
