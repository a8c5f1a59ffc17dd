/**
 * How far a reader of a stream has come, so that it can go on after a cut.
 *
 * `…/events` numbers what the function yielded. A live stream carries no such numbers, and one yield may be
 * several messages (text that is SSE already), of which `…/events` numbers the last. So a place is a number and
 * the messages had since; a reader goes on after the number and passes over those.
 */
export class Position {
  #event = 0;
  #messages = 0;
  #toSkip = 0;

  /** The last yield that was had whole; 0 for none. */
  get event(): number {
    return this.#event;
  }

  /** Messages had after that one. */
  get messages(): number {
    return this.#messages;
  }

  /** A message of the live stream was had. */
  takeLive(): void {
    this.#messages += 1;
  }

  /** `…/events` is read from here on. */
  goOn(): void {
    this.#toSkip = this.#messages;
  }

  /** A message of `…/events` with its number, if it has one: whether it is new. */
  take(event: number | null): boolean {
    const isNew = this.#toSkip === 0;
    if (!isNew) this.#toSkip -= 1;
    if (event !== null) {
      this.#event = event;
      this.#messages = this.#toSkip;
    } else if (isNew) this.#messages += 1;
    return isNew;
  }
}
