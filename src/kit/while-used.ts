import type { Clock, Timer } from "./clock.ts";

export type Lent<T> = {
  readonly clock: Clock;
  /** How long it stays when nobody uses it. */
  readonly idleMs: number;
  open(): T;
  close(thing: T): Promise<void>;
};

/** Something costly, such as a thread: it is opened when it is first needed, and closed when it is needed no more. */
export class WhileUsed<T extends object> {
  readonly #lent: Lent<T>;
  #thing: T | null = null;
  #users = 0;
  #idle: Timer | null = null;
  /** Of those that were closed for want of use. */
  #closing: Promise<void> = Promise.resolve();

  constructor(lent: Lent<T>) {
    this.#lent = lent;
  }

  async use<R>(work: (thing: T) => Promise<R>): Promise<R> {
    this.#idle?.cancel();
    const thing = (this.#thing ??= this.#lent.open());
    this.#users += 1;
    try {
      return await work(thing);
    } finally {
      this.#users -= 1;
      if (this.#users === 0) this.#idle = this.#lent.clock.after(this.#lent.idleMs, () => void this.close());
    }
  }

  /** It has broken: the next use opens another. */
  forget(thing: T): void {
    if (this.#thing === thing) this.#thing = null;
  }

  /** Resolves when all that was opened is closed; a later use opens it anew. */
  async close(): Promise<void> {
    this.#idle?.cancel();
    const thing = this.#thing;
    this.#thing = null;
    if (thing) this.#closing = Promise.all([this.#closing, this.#lent.close(thing)]).then(() => undefined);
    await this.#closing;
  }
}
