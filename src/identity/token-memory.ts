/** What is remembered by its token. */
type Kept = {
  readonly token: string;
  /** How many streams and WebSockets are open by its right. */
  holders: number;
};

/** So many that are in use are passed over at a time, to find one that is not. */
const PASSED_OVER = 16;

/**
 * Remembers a bounded number of tokens; the one that was remembered first is forgotten first. A token that something is
 * open by is kept as long as that is: it would have to be verified again with every look at it.
 */
export class TokenMemory<Remembered extends Kept> {
  readonly #max: number;
  readonly #byToken = new Map<string, Remembered>();

  constructor(max: number) {
    this.#max = max;
  }

  get(token: string): Remembered | undefined {
    return this.#byToken.get(token);
  }

  /** Remembers it; gives one that was forgotten in its place. */
  add(remembered: Remembered): Remembered | null {
    const forgotten = this.#byToken.size >= this.#max ? this.#takeUnused() : null;
    this.#byToken.set(remembered.token, remembered);
    return forgotten;
  }

  delete({ token }: Remembered): void {
    this.#byToken.delete(token);
  }

  all(): Iterable<Remembered> {
    return this.#byToken.values();
  }

  #takeUnused(): Remembered | null {
    let left = PASSED_OVER;
    for (const oldest of this.#byToken.values()) {
      this.#byToken.delete(oldest.token);
      if (oldest.holders === 0) return oldest;
      // Behind the others, so that it is not in the way the next time.
      this.#byToken.set(oldest.token, oldest);
      left -= 1;
      if (left === 0) return null;
    }
    return null;
  }
}
