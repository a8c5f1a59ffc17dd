/** Some three milliseconds of refusals. */
const PER_TURN = 32;

/**
 * Does much small work a few pieces at a time, in order, with the event loop free in between. Measured on a busy
 * machine, with 7,500 connections: those whose time was over, refused at once, stopped the loop for up to 0.65 s.
 */
export class FewAtATime {
  readonly #waiting: (() => void)[] = [];
  #isUnderWay = false;

  add(work: () => void): void {
    this.#waiting.push(work);
    if (!this.#isUnderWay) this.#next();
  }

  #next(): void {
    this.#isUnderWay = this.#waiting.length > 0;
    if (this.#isUnderWay) setImmediate(() => this.#turn());
  }

  #turn(): void {
    for (const work of this.#waiting.splice(0, PER_TURN)) work();
    this.#next();
  }
}
