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
