import { CLOSE, PONG, payloadOf, readFrameHead } from "./frames.ts";
import type { FrameHead } from "./frames.ts";

export type LaneEvents = {
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
    // After a close frame of the sender's nobody reads another one.
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
