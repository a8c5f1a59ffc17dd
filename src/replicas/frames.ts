import { GrowingBytes, writeAscii } from "../kit/bytes.ts";
import type { TraceHeaders } from "../model/trace.ts";

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
  BATCH: 10,
  RESUME: 11,
  CHECKPOINT: 12,
  PROGRESS: 13,
  TRACE: 14,
  CANCEL: 32,
  WITHDRAW: 33,
  CREDIT: 34,
  STOP: 35,
  WITHDRAWN: 36,
  BEGUN: 37,
  PING: 38,
  PONG: 39,
  CHECKPOINTED: 40,
} as const;

export const HEAD_BYTES = 9;
const RUN_ID_BYTES = 36;
/** What a CALL frame says of its run, before the run's id: the attempt and the time limit. */
const ATTEMPT_BYTES = 5;
const MAX_ATTEMPT = 0xff;
const MAX_LIMIT_MS = 0xff_ff_ff_ff;

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

/** How a CHECKPOINT is answered: it is stored; not kept, because a caller waits for the run; the call is over. */
export const CHECKPOINT_ANSWERS = { stored: 0, notKept: 1, over: 2 } as const;
export type CheckpointAnswer = keyof typeof CHECKPOINT_ANSWERS;

/** What an earlier attempt of a run has left for this one. */
export type Resume = {
  /** JSON. */
  readonly value: Uint8Array;
  /** Chunks stored with it, and stored in all. */
  readonly checkpointSent: number;
  readonly sent: number;
};

const RESUME_HEAD_BYTES = 16;

/** The frame before a call that continues an earlier attempt. */
export function packResume(callId: number, { value, checkpointSent, sent }: Resume): Buffer {
  const frame = Buffer.allocUnsafe(HEAD_BYTES + RESUME_HEAD_BYTES + value.length);
  writeFrameHead(frame, 0, frame.length - HEAD_BYTES, callId, FRAME.RESUME);
  frame.writeBigUInt64LE(BigInt(sent), HEAD_BYTES);
  frame.writeBigUInt64LE(BigInt(checkpointSent), HEAD_BYTES + 8);
  frame.set(value, HEAD_BYTES + RESUME_HEAD_BYTES);
  return frame;
}

/** The frame before a batch in which that call belongs to a trace. */
export function packTrace(callId: number, trace: TraceHeaders): Buffer {
  const frame = Buffer.allocUnsafe(traceBytes(trace));
  writeTrace(callId, trace, frame, 0);
  return frame;
}

function traceBytes({ traceparent, tracestate }: TraceHeaders): number {
  return HEAD_BYTES + traceparent.length + (tracestate ?? "").length;
}

/** Returns where the frame ends. */
function writeTrace(callId: number, trace: TraceHeaders, frames: Buffer, at: number): number {
  const { traceparent, tracestate } = trace;
  const end = at + traceBytes(trace);
  writeFrameHead(frames, at, end - at - HEAD_BYTES, callId, FRAME.TRACE);
  frames.write(traceparent + (tracestate ?? ""), at + HEAD_BYTES, "latin1");
  return end;
}

/** A call as a frame carries it. */
export type PackedCall = {
  readonly wireId: number;
  readonly runId: string;
  readonly functionName: string;
  readonly attempt: number;
  /** How long the service waits for it; 0 if it has no limit. */
  readonly limitMs: number;
  /** The arguments' bytes, sent unchanged. */
  readonly body: Buffer;
  /** Told in a frame before it; null for none, and in a batch. */
  readonly trace?: TraceHeaders | null;
};

/** The frames of many calls in as few buffers as possible; only large bodies stay in their own. */
export function packCalls(calls: readonly PackedCall[]): Buffer[] {
  return pack(calls, 0, framesBytes, writeCall);
}

function framesBytes(call: PackedCall): number {
  return callBytes(call) + (call.trace ? traceBytes(call.trace) : 0);
}

/** One frame for calls of one function, whose ids are consecutive, in as few buffers as possible. */
export function packBatch(calls: readonly PackedCall[]): Buffer[] {
  const [first] = calls;
  if (!first) return [];
  const { functionName, wireId } = first;
  const nameEnd = HEAD_BYTES + 3 + functionName.length;
  const writeMember = (call: PackedCall, frame: Buffer, start: number): number => {
    let at = start;
    if (call === first) {
      let length = nameEnd - HEAD_BYTES;
      for (const each of calls) length += MEMBER_BYTES + each.body.length;
      writeFrameHead(frame, 0, length, wireId, FRAME.BATCH);
      frame[HEAD_BYTES] = functionName.length;
      frame.writeUInt16LE(calls.length, HEAD_BYTES + 1);
      writeAscii(functionName, frame, HEAD_BYTES + 3);
      at = nameEnd;
    }
    at = writeRun(call, frame, at);
    return frame.writeUInt32LE(call.body.length, at);
  };
  return pack(calls, nameEnd, () => MEMBER_BYTES, writeMember);
}

/** Of a call in a batch: its attempt and limit, its run, and the length of its arguments. */
const MEMBER_BYTES = ATTEMPT_BYTES + RUN_ID_BYTES + 4;

/** Writes the heads of calls, and their bodies behind them; `firstBytes` are before the first head. */
function pack(
  calls: readonly PackedCall[],
  firstBytes: number,
  headBytes: (call: PackedCall) => number,
  writeHead: (call: PackedCall, frames: Buffer, at: number) => number,
): Buffer[] {
  let bytes = firstBytes;
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

/** Copying a few kilobytes costs less than a second write. */
function isCopied({ body }: PackedCall): boolean {
  return body.length <= 8192;
}

function callBytes({ functionName }: PackedCall): number {
  return HEAD_BYTES + 1 + ATTEMPT_BYTES + RUN_ID_BYTES + functionName.length;
}

/** Writes a call's frames up to its body; returns where the body begins. */
function writeCall(call: PackedCall, frames: Buffer, start: number): number {
  const { wireId, functionName, body, trace } = call;
  const at = trace ? writeTrace(wireId, trace, frames, start) : start;
  const end = at + callBytes(call);
  writeFrameHead(frames, at, end - at - HEAD_BYTES + body.length, wireId, FRAME.CALL);
  frames[at + HEAD_BYTES] = functionName.length;
  writeAscii(functionName, frames, writeRun(call, frames, at + HEAD_BYTES + 1));
  return end;
}

function writeFrameHead(frames: Buffer, at: number, length: number, wireId: number, type: number): void {
  frames.writeUInt32LE(length, at);
  frames.writeUInt32LE(wireId, at + 4);
  frames[at + 8] = type;
}

/** Writes what a call says of its run; returns where it ends. */
function writeRun({ runId, attempt, limitMs }: PackedCall, frames: Buffer, at: number): number {
  frames[at] = Math.min(attempt, MAX_ATTEMPT);
  frames.writeUInt32LE(Math.min(Math.ceil(limitMs), MAX_LIMIT_MS), at + 1);
  frames.write(runId, at + ATTEMPT_BYTES, RUN_ID_BYTES, "latin1");
  return at + ATTEMPT_BYTES + RUN_ID_BYTES;
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
