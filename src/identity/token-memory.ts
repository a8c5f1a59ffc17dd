/** What is remembered by its token. */
type Kept = {
  readonly token: string;
  /** How many streams and WebSockets are open by its right. */
  holders: number;
};

/** So many are looked at for each that comes: where most are held, room is made little by little. */
const LOOKED_AT = 16;

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

  /** Remembers it; gives those that were forgotten in its place. */
  add(remembered: Remembered): Remembered[] {
    const forgotten = this.#makeRoom();
    this.#byToken.set(remembered.token, remembered);
    return forgotten;
  }

  delete({ token }: Remembered): void {
    this.#byToken.delete(token);
  }

  all(): Iterable<Remembered> {
    return this.#byToken.values();
  }

  #makeRoom(): Remembered[] {
    const forgotten: Remembered[] = [];
    let left = LOOKED_AT;
    for (const oldest of this.#byToken.values()) {
      if (this.#byToken.size < this.#max || left === 0) break;
      left -= 1;
      this.#byToken.delete(oldest.token);
      // Behind the others, so that it is not in the way the next time.
      if (oldest.holders > 0) this.#byToken.set(oldest.token, oldest);
      else forgotten.push(oldest);
    }
    return forgotten;
  }
}
