/** The pieces of a body, as long as all of it is to be kept. */
export class KeptBody {
  readonly #maxBytes: number;
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get isTooLarge(): boolean {
    return this.#bytes > this.#maxBytes;
  }

  add(bytes: Buffer): void {
    if (this.isTooLarge) return;
    this.#bytes += bytes.length;
    if (this.isTooLarge) this.#pieces = [];
    else this.#pieces.push(bytes);
  }

  /** All of it; null where it was larger than what is kept. */
  whole(): Buffer | null {
    if (this.isTooLarge) return null;
    const [first] = this.#pieces;
    return first && this.#pieces.length === 1 ? first : Buffer.concat(this.#pieces, this.#bytes);
  }
}
