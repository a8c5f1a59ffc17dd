import { GrowingBytes } from "../bytes.ts";
import { BadResponse, parseFields } from "./fields.ts";

/** After the last chunk, `restBytes` more have arrived. */
type ChunksEnd = { readonly trailers: readonly string[]; readonly restBytes: number };

const LINE_END = Buffer.from("\r\n");
/** A size with its extensions. */
const MAX_LINE_BYTES = 4 * 1024;
const MAX_TRAILER_BYTES = 16 * 1024;
/** Up to 2^48: no number loses a digit. */
const SIZE = /^([0-9A-Fa-f]{1,12})[\t ]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/;

/** Smaller pieces are passed on together, because each has a cost, and the server decides their size. */
const LARGE_BYTES = 4 * 1024;

/** Decodes a chunked body. Holds no more than a line of it. */
export class ChunkedBody {
  readonly #onBody: (bytes: Buffer) => void;
  #state: "size" | "data" | "data-end" | "trailers" = "size";
  #leftBytes = 0;
  #line: Buffer | null = null;
  #trailers: string[] = [];
  #trailerBytes = 0;
  /** A piece that has not been passed on; if small ones follow, it is the first of them. */
  #latest: Buffer | null = null;
  readonly #small = new GrowingBytes();

  constructor(onBody: (bytes: Buffer) => void) {
    this.#onBody = onBody;
  }

  /** Whether every chunk that has begun is whole. */
  get isBetweenChunks(): boolean {
    return this.#state !== "data";
  }

  /** Null until the body is whole; throws `BadResponse`. */
  feed(data: Buffer): ChunksEnd | null {
    try {
      return this.#read(data);
    } finally {
      this.#handOn();
    }
  }

  #read(data: Buffer): ChunksEnd | null {
    let at = 0;
    for (;;) {
      if (this.#state === "data") {
        if (at === data.length) return null;
        const end = Math.min(data.length, at + this.#leftBytes);
        this.#leftBytes -= end - at;
        this.#add(at === 0 && end === data.length ? data : data.subarray(at, end));
        at = end;
        if (this.#leftBytes > 0) return null;
        this.#state = "data-end";
      }
      const end = data.indexOf(LINE_END, at);
      const line = this.#takeLine(data, at, end);
      if (line === null) return null;
      at = line.next;
      if (this.#state === "trailers" && line.text === "") {
        return { trailers: parseFields(this.#trailers).headers, restBytes: data.length - at };
      }
      this.#take(line.text);
    }
  }

  #add(piece: Buffer): void {
    const before = this.#latest;
    if (!before || piece.length >= LARGE_BYTES) {
      this.#handOn();
      this.#latest = piece;
    } else {
      if (this.#small.length === 0) this.#small.add(before, 0, before.length);
      this.#small.add(piece, 0, piece.length);
    }
  }

  #handOn(): void {
    const piece = this.#small.length > 0 ? this.#small.take() : this.#latest;
    this.#latest = null;
    if (piece) this.#onBody(piece);
  }

  #take(line: string): void {
    if (this.#state === "data-end") {
      if (line !== "") throw new BadResponse("a chunk of its body is longer than it said");
      this.#state = "size";
    } else if (this.#state === "size") {
      const size = SIZE.exec(line)?.[1];
      if (size === undefined) throw new BadResponse("the size of a chunk of its body is malformed");
      this.#leftBytes = Number.parseInt(size, 16);
      this.#state = this.#leftBytes === 0 ? "trailers" : "data";
    } else {
      this.#trailerBytes += line.length + LINE_END.length;
      if (this.#trailerBytes > MAX_TRAILER_BYTES) throw new BadResponse("its trailers are too large");
      this.#trailers.push(line);
    }
  }

  /** The line that ends after `at`; null if it is not whole yet. */
  #takeLine(data: Buffer, at: number, found: number): { text: string; next: number } | null {
    const before = this.#line;
    // Its end may have been cut in two.
    if (before && before.at(-1) === 0x0d && data[at] === 0x0a) {
      this.#line = null;
      return { text: before.toString("latin1", 0, before.length - 1), next: at + 1 };
    }
    const end = found === -1 ? data.length : found;
    const piece = data.subarray(at, end);
    const whole = before ? Buffer.concat([before, piece]) : piece;
    if (whole.length > MAX_LINE_BYTES) throw new BadResponse("a line between its chunks is too long");
    if (found === -1) {
      // A copy, because the buffer that it arrived in may be freed.
      this.#line = whole === piece ? Buffer.from(piece) : whole;
      return null;
    }
    this.#line = null;
    return { text: whole.toString("latin1", 0, whole.length), next: found + LINE_END.length };
  }
}
