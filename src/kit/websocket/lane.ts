import { randomBytes } from "node:crypto";

/** The opcodes that matter to a proxy. */
export const CLOSE = 0x8;
const PING = 0x9;
const PONG = 0xa;

const FIN = 0x80;
const MASKED = 0x80;
const MASK_BYTES = 4;
const SHORT = 126;
const LONG = 127;
/** From here on, a length is not a safe integer; no peer sends that much. */
const UNCOUNTABLE_HIGH = 0x200000;
/** The largest payload of a control frame. */
const MAX_CONTROL_BYTES = 125;

type FrameHead = {
  readonly isFinal: boolean;
  readonly opcode: number;
  /** With the length and the mask. */
  readonly size: number;
  /** Of the payload; infinite where it cannot be counted. */
  readonly length: number;
  readonly isMasked: boolean;
};

/** Reads the head of a frame; null if it is not whole. Checks nothing: that is for the peers. */
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
    length: short === LONG ? longLength(data, at + 2) : short === SHORT ? data.readUInt16BE(at + 2) : short,
    isMasked,
  };
}

function longLength(data: Buffer, at: number): number {
  const high = data.readUInt32BE(at);
  if (high >= UNCOUNTABLE_HIGH) return Number.POSITIVE_INFINITY;
  return high * 2 ** 32 + data.readUInt32BE(at + 4);
}

/** The unmasked payload of the frame at `at`; the mask is the end of its head. */
export function payloadOf(data: Buffer, at: number, { size, length, isMasked }: FrameHead): Buffer {
  const from = at + size;
  const mask = isMasked ? data.subarray(from - MASK_BYTES, from) : null;
  return unmasked(data.subarray(from, from + length), mask);
}

function unmasked(payload: Buffer, mask: Buffer | null): Buffer {
  return mask ? Buffer.from(payload.map((byte, at) => byte ^ mask[at % MASK_BYTES]!)) : payload;
}

/** A ping; to a server it must be masked. */
export function pingFrame(payload: Buffer, isMasked: boolean): Buffer {
  return controlFrame(PING, payload, isMasked);
}

/** A close frame; a reason that is too long is cut. */
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

type LaneEvents = {
  /** Forwards bytes; returns whether more may come at once. */
  write(bytes: Buffer): boolean;
  /** Our close frame has been sent: nothing follows. */
  onShut(): void;
};

/**
 * One direction of a WebSocket: forwards frames unchanged and unchecked, inserts frames of ours between them, and removes
 * the answers to our pings. Holds no more than the head of a frame.
 */
export class Lane {
  readonly #mark: Buffer;
  readonly #events: LaneEvents;
  /** The beginning of a frame whose head is not whole yet. */
  #held: Buffer | null = null;
  /** Bytes of the payload that is passing. */
  #left = 0;
  /** To be inserted after the frame that is passing. */
  #waiting: Buffer | null = null;
  #isShutting = false;
  #isShut = false;
  passedBytes = 0;
  /** A close frame of the sender has begun to pass. */
  hasClosed = false;

  /** Pongs with that mark answer pings of ours. */
  constructor(mark: Buffer, events: LaneEvents) {
    this.#mark = mark;
    this.#events = events;
  }

  /** Returns whether more may come at once. */
  feed(data: Buffer): boolean {
    if (this.#isShut) return true;
    const bytes = this.#held ? Buffer.concat([this.#held, data]) : data;
    this.#held = null;
    let hasRoom = true;
    /** Bytes before this have passed. */
    let from = 0;
    let at = 0;
    const pass = (end: number): void => {
      if (end > from) {
        // Usually all of them: another view of the same bytes is not free.
        const isAll = from === 0 && end === bytes.length;
        hasRoom = this.#events.write(isAll ? bytes : bytes.subarray(from, end));
        this.passedBytes += end - from;
      }
      from = end;
    };
    while (at < bytes.length && !this.#isShut) {
      if (this.#left > 0) {
        const taken = Math.min(this.#left, bytes.length - at);
        this.#left -= taken;
        at += taken;
      } else {
        const head = readFrameHead(bytes, at);
        const isCandidate = head !== null && this.#mayAnswer(head);
        if (!head || (isCandidate && bytes.length < at + head.size + head.length)) {
          pass(at);
          this.#held = Buffer.from(bytes.subarray(at));
          return hasRoom;
        }
        if (isCandidate && payloadOf(bytes, at, head).equals(this.#mark)) {
          pass(at);
          at += head.size + head.length;
          from = at;
          continue;
        }
        if (head.opcode === CLOSE) this.hasClosed = true;
        at += head.size;
        this.#left = head.length;
      }
      if (this.#left > 0 || !this.#waiting) continue;
      pass(at);
      this.#insert();
    }
    if (!this.#isShut) pass(bytes.length);
    return hasRoom;
  }

  /** The sender has ended: the held beginning of a frame passes too. */
  end(): void {
    if (this.#held && !this.#isShut) {
      this.#events.write(this.#held);
      this.passedBytes += this.#held.length;
    }
    this.#held = null;
  }

  /** Inserts a frame when none is passing; ignored while another one waits. */
  put(frame: Buffer): void {
    if (this.#isShutting || this.#waiting) return;
    this.#waiting = frame;
    if (this.#left === 0) this.#insert();
  }

  /** Inserts a close frame, after which nothing passes. */
  shut(frame: Buffer): void {
    if (this.#isShutting) return;
    this.#isShutting = true;
    // After the sender's close frame, no other frame is read.
    this.#waiting = this.hasClosed ? Buffer.alloc(0) : frame;
    if (this.#left === 0) this.#insert();
  }

  #insert(): void {
    const frame = this.#waiting;
    this.#waiting = null;
    if (frame && frame.length > 0) this.#events.write(frame);
    if (!this.#isShutting) return;
    this.#isShut = true;
    this.#held = null;
    this.#events.onShut();
  }

  /** Whether the frame may answer one of our pings. */
  #mayAnswer({ isFinal, opcode, length }: FrameHead): boolean {
    return isFinal && opcode === PONG && length === this.#mark.length;
  }
}
