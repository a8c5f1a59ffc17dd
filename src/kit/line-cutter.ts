import { GrowingBytes } from "./bytes.ts";

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const EMPTY = Buffer.alloc(0);

export type LineOptions = {
  /** A longer line comes in pieces. */
  readonly maxBytes: number;
  /** A carriage return ends a line too, as progress bars use it. */
  readonly endsAtReturn?: boolean;
};

/** Takes a line without its end; `isPiece` when more of it follows. */
export type OnLine = (bytes: Buffer, isPiece: boolean) => void;

/** Cuts bytes into lines. Holds no more than one line and the latest bytes. */
export class LineCutter {
  readonly #maxBytes: number;
  readonly #endsAtReturn: boolean;
  readonly #onLine: OnLine;
  /** A line without its end yet. */
  readonly #open = new GrowingBytes();
  /** The latest bytes, and how far they were cut. */
  #data: Buffer = EMPTY;
  #at = 0;
  /** The last line ended with a carriage return, to which a following newline belongs. */
  #isAfterReturn = false;

  constructor({ maxBytes, endsAtReturn = false }: LineOptions, onLine: OnLine) {
    this.#maxBytes = maxBytes;
    this.#endsAtReturn = endsAtReturn;
    this.#onLine = onLine;
  }

  push(data: Buffer): void {
    const left = this.#data.subarray(this.#at);
    this.#data = left.length === 0 ? data : Buffer.concat([left, data]);
    this.#at = 0;
  }

  /** Passes on lines while `mayGoOn` allows it; false if there are more. */
  cut(mayGoOn: () => boolean = () => true): boolean {
    const data = this.#data;
    while (this.#at < data.length) {
      const start = this.#at;
      if (this.#isAfterReturn) {
        this.#isAfterReturn = false;
        if (data[start] === NEWLINE) {
          this.#at = start + 1;
          continue;
        }
      }
      // The end is searched up to the maximum length.
      const limit = Math.min(data.length, start + this.#maxBytes - this.#open.length);
      const end = this.#endOfLine(data, start, limit);
      if (end === -1) this.#hold(data, start, limit);
      else {
        this.#isAfterReturn = data[end] === RETURN && this.#endsAtReturn;
        this.#at = end + 1;
        this.#finish(data, start, end);
      }
      if (this.#at < data.length && !mayGoOn()) return false;
    }
    this.#data = EMPTY;
    return true;
  }

  /** Passes on the rest, which has no end. */
  end(): void {
    if (this.#open.length > 0) this.#finish(EMPTY, 0, 0);
  }

  #endOfLine(data: Buffer, start: number, limit: number): number {
    // One more than the maximum: the end may follow.
    const last = Math.min(data.length, limit + 1);
    if (!this.#endsAtReturn) {
      const end = data.indexOf(NEWLINE, start);
      return end < last ? end : -1;
    }
    for (let i = start; i < last; i++) if (data[i] === NEWLINE || data[i] === RETURN) return i;
    return -1;
  }

  #finish(data: Buffer, start: number, end: number): void {
    if (this.#open.length === 0) {
      this.#onLine(data.subarray(start, end), false);
      return;
    }
    this.#open.add(data, start, end);
    this.#onLine(this.#open.take(), false);
  }

  /** Keeps the beginning of a line; passes on a piece if it has the maximum length and continues. */
  #hold(data: Buffer, start: number, limit: number): void {
    this.#open.add(data, start, limit);
    this.#at = limit;
    if (limit === data.length) return;
    const bytes = this.#open.take();
    const end = characterStart(bytes);
    this.#onLine(bytes.subarray(0, end), true);
    this.#open.add(bytes, end, bytes.length);
  }
}

/** Where the last character begins if its bytes are not all there, else the end. */
function characterStart(bytes: Buffer): number {
  const { length } = bytes;
  for (let back = 1; back <= 3 && back < length; back++) {
    const byte = bytes[length - back]!;
    if ((byte & 0xc0) === 0x80) continue;
    const wholeBytes = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return wholeBytes > back ? length - back : length;
  }
  return length;
}
