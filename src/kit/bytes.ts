const EMPTY = Buffer.alloc(0);
const FIRST_BYTES = 256;
/** Announced bytes up to here are reserved at once. glibc returns blocks of this size to the system when they are freed. */
const AT_ONCE_BYTES = 128 * 1024;

/** Joins bytes that arrive in pieces. Takes at most twice their memory; a list would take a hundred bytes per piece. */
export class GrowingBytes {
  #bytes: Buffer = EMPTY;
  length = 0;

  /** The bytes so far; later pieces do not change the view. */
  get view(): Buffer {
    return this.#bytes.subarray(0, this.length);
  }

  /** Adds a piece of `from`; `wholeBytes` is the final length, if it is known. */
  add(from: Buffer, start: number, end: number, wholeBytes?: number): void {
    const needed = this.length + end - start;
    if (needed > this.#bytes.length) {
      const doubled = 2 * this.#bytes.length;
      const room =
        wholeBytes === undefined
          ? Math.max(FIRST_BYTES, doubled)
          : Math.min(wholeBytes, Math.max(AT_ONCE_BYTES, doubled));
      const grown = Buffer.allocUnsafeSlow(Math.max(needed, room));
      this.#bytes.copy(grown, 0, 0, this.length);
      this.#bytes = grown;
    }
    from.copy(this.#bytes, this.length, start, end);
    this.length = needed;
  }

  /** Returns the bytes, and begins again. */
  take(): Buffer {
    const taken = this.view;
    this.#bytes = EMPTY;
    this.length = 0;
    return taken;
  }
}

/** From here on, a piece is larger than the object that holds it. */
const LARGE_BYTES = 4 * 1024;

/** A body that arrives in pieces, up to a limit. Joins small pieces: one-byte pieces would take 100 times their size. */
export class KeptBody {
  readonly #maxBytes: number;
  #pieces: Buffer[] = [];
  /** Those that came after the last of the pieces. */
  #small: GrowingBytes | null = null;
  bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get isTooLarge(): boolean {
    return this.bytes > this.#maxBytes;
  }

  add(piece: Buffer): void {
    if (this.isTooLarge) return;
    this.bytes += piece.length;
    if (this.isTooLarge) {
      this.#pieces = [];
      this.#small = null;
    } else if (piece.length >= LARGE_BYTES || this.#pieces.length === 0) {
      // The first as well: most bodies come in one piece.
      this.#settle();
      this.#pieces.push(piece);
    } else (this.#small ??= new GrowingBytes()).add(piece, 0, piece.length);
  }

  /** The whole body; null if it exceeded the limit. */
  whole(): Buffer | null {
    if (this.isTooLarge) return null;
    this.#settle();
    const [first] = this.#pieces;
    return first && this.#pieces.length === 1 ? first : Buffer.concat(this.#pieces, this.bytes);
  }

  #settle(): void {
    if (this.#small && this.#small.length > 0) this.#pieces.push(this.#small.take());
  }
}

/** Smaller ones are not worth it. */
const WORTH_BYTES = 16 * 1024;

/**
 * Frees the memory of a buffer at once, unless it shares it; the buffer must no longer be used. Sockets read into blocks of
 * 64 KB: as garbage, hundreds of them grow glibc's heap, which never shrinks below the last block in use.
 */
export function releaseBytes({ buffer, byteLength }: Buffer): void {
  if (byteLength < WORTH_BYTES || byteLength !== buffer.byteLength || !(buffer instanceof ArrayBuffer))
    return;
  buffer.transfer(0);
}

/** Writes a few characters: the fixed cost of `Buffer.write` is that of twenty. */
export function writeAscii(text: string, target: Uint8Array, start: number): void {
  for (let i = 0; i < text.length; i++) target[start + i] = text.charCodeAt(i);
}
