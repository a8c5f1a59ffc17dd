import { GrowingBytes } from "./growing-bytes.ts";

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

  /** All of it; null where it was larger than what is kept. */
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
