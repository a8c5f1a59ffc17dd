import { GrowingBytes } from "../kit/growing-bytes.ts";
import { HEAD_BYTES } from "./frames.ts";

/** Each piece of a frame larger than this is shown as it arrives, so that it can be checked bit by bit. */
export const LARGE_BYTES = 256 * 1024;

/** What a reader of frames asks and tells. */
export type FrameEvents = {
  /** Asked at a frame's head, before any of its payload is kept; throws `BadFrame` for one that may not come. */
  admit(type: number, callId: number, length: number): void;
  /** A whole frame. The payload is a view into what arrived, not a copy. */
  onFrame(type: number, callId: number, payload: Buffer): void;
  /** So much of a large payload has come; the same bytes again at its end. */
  onPart?(type: number, callId: number, payload: Buffer): void;
};

/** Cuts what arrives into frames. It holds one unfinished frame at most, and that only if it was admitted. */
export class FrameReader {
  readonly #events: FrameEvents;
  /** An unfinished frame, from its head on. */
  readonly #open = new GrowingBytes();
  /** Of the unfinished frame, once its head is whole; then it was admitted. */
  #openBytes = HEAD_BYTES;

  constructor(events: FrameEvents) {
    this.#events = events;
  }

  /** Whether all of it was copied: then nobody looks at `data` again. */
  push(data: Buffer): boolean {
    let at = this.#open.length > 0 ? this.#goOn(data) : 0;
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
    if (at < data.length) this.#keep(data, at);
    return isCopied;
  }

  /** Adds to the unfinished frame; where the next one begins. */
  #goOn(data: Buffer): number {
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

  #keep(data: Buffer, at: number): void {
    this.#open.add(data, at, data.length, this.#openBytes);
    this.#showPart();
  }

  /** How many bytes the frame has whose head is there. */
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
