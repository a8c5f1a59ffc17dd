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
/** Lengths from here on are beyond what a number can count, and no peer sends that much. */
const UNCOUNTABLE_HIGH = 0x200000;
/** The largest payload of a control frame. */
const MAX_CONTROL_BYTES = 125;

/** The beginning of a frame. */
type FrameHead = {
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

type LaneEvents = {
  /** Sends bytes on; gives whether more may come at once. */
  write(bytes: Buffer): boolean;
  /** Our own close frame has been sent: nothing more follows. */
  onShut(): void;
};

/**
 * One direction of a WebSocket. Frames pass as they came, good or bad; frames of ours go in between them, and answers
 * to our pings are taken out. It holds no more than the head of a frame.
 */
export class Lane {
  readonly #mark: Buffer;
  readonly #events: LaneEvents;
  /** The beginning of a frame that is not known yet. */
  #held: Buffer | null = null;
  /** Bytes of the payload that is passing. */
  #left = 0;
  /** What goes in after the frame that is passing. */
  #waiting: Buffer | null = null;
  #isShutting = false;
  #isShut = false;
  /** How many bytes of the sender's have passed. */
  passedBytes = 0;
  /** A close frame of the sender's has begun to pass: what comes after it is not for us to explain. */
  hasClosed = false;

  /** Pongs with that mark answer pings of ours. */
  constructor(mark: Buffer, events: LaneEvents) {
    this.#mark = mark;
    this.#events = events;
  }

  /** Takes what came; gives whether more may come at once. */
  feed(data: Buffer): boolean {
    if (this.#isShut) return true;
    const bytes = this.#held ? Buffer.concat([this.#held, data]) : data;
    this.#held = null;
    let hasRoom = true;
    /** What is before this has been passed. */
    let from = 0;
    let at = 0;
    const pass = (end: number): void => {
      if (end > from) {
        // Mostly it is all of them: another view of the same bytes is not free.
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
        if (isCandidate && this.#answers(bytes, at, head)) {
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

  /** The sender has ended: what was held of a frame passes too. */
  end(): void {
    if (this.#held && !this.#isShut) {
      this.#events.write(this.#held);
      this.passedBytes += this.#held.length;
    }
    this.#held = null;
  }

  /** Puts a frame in as soon as none is passing; not while another one waits. */
  put(frame: Buffer): void {
    if (this.#isShutting || this.#waiting) return;
    this.#waiting = frame;
    if (this.#left === 0) this.#insert();
  }

  /** Puts in a close frame, after which nothing more passes. */
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

  #mayAnswer({ isFinal, opcode, length }: FrameHead): boolean {
    return isFinal && opcode === PONG && length === this.#mark.length;
  }

  #answers(bytes: Buffer, at: number, head: FrameHead): boolean {
    return payloadOf(bytes, at, head).equals(this.#mark);
  }
}
