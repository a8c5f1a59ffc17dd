const MAX_BYTES = 64 * 1024 * 1024;

/**
 * How much of callers' bodies is held here on its way to other nodes. Callers have shown no token yet, and may be many:
 * when there is no room left, a body is read only when its node asks for it.
 */
export class HeldBytes {
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get hasRoom(): boolean {
    return this.#bytes < this.#maxBytes;
  }

  /** Holds so many more, or less. */
  add(bytes: number): void {
    this.#bytes += bytes;
  }
}
