const EMPTY = Buffer.alloc(0);
const FIRST_BYTES = 256;
/**
 * Up to here a whole that is announced is reserved at once; beyond it only as much again as has come. Blocks of this
 * size go back to the system when they are freed, smaller ones stay with glibc.
 */
const AT_ONCE_BYTES = 128 * 1024;

/**
 * Bytes that arrive in pieces and are wanted in one. Each is copied once or twice, however small the pieces are, and
 * the memory is at most twice what has arrived: a list of pieces would take a hundred bytes more for each.
 */
export class GrowingBytes {
  #bytes: Buffer = EMPTY;
  length = 0;

  /** What has been gathered; a view that later pieces do not change. */
  get view(): Buffer {
    return this.#bytes.subarray(0, this.length);
  }

  /** Adds a piece of `from`; `wholeBytes` is how much there will be in the end, where that is known. */
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

  /** Gives away what has been gathered, and begins anew. */
  take(): Buffer {
    const taken = this.view;
    this.#bytes = EMPTY;
    this.length = 0;
    return taken;
  }
}

/** From here on a piece weighs more than the object that holds it. */
const LARGE_BYTES = 4 * 1024;

/**
 * A body that comes in pieces, as long as all of it is to be kept. Its sender decides where it is cut: small pieces are
 * put together, as a body in pieces of one byte would take a hundred times its size.
 */
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
 * Frees the memory of a buffer at once instead of at the next collection. The buffer is empty afterwards and must
 * no longer be used. One that shares its memory with others is left alone. Sockets read into blocks of 64 KB: hundreds of
 * them as garbage make glibc's heap grow, and it never shrinks below the last block that is still in use.
 */
export function releaseBytes({ buffer, byteLength }: Buffer): void {
  if (byteLength < WORTH_BYTES || byteLength !== buffer.byteLength || !(buffer instanceof ArrayBuffer))
    return;
  buffer.transfer(0);
}

/** Writes a few characters among other bytes: `Buffer.write` takes as long as twenty of them before it begins. */
export function writeAscii(text: string, target: Uint8Array, start: number): void {
  for (let i = 0; i < text.length; i++) target[start + i] = text.charCodeAt(i);
}
