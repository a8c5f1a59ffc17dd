import type { Clock, Timer } from "./clock.ts";

/** Starts parts in order and stops them in reverse, even if some fail. */
export class Lifecycle {
  readonly #stops: { name: string; stop: () => Promise<void> | void }[] = [];
  #starting: Promise<unknown> = Promise.resolve();
  #stopping: Promise<void> | null = null;

  async start<T>(
    name: string,
    start: () => Promise<T> | T,
    stop: (part: T) => Promise<void> | void,
  ): Promise<T> {
    if (this.#stopping) throw new Error(`${name} was not started: everything is being stopped`);
    const starting = (async () => {
      const part = await start();
      this.#stops.push({ name, stop: () => stop(part) });
      return part;
    })();
    this.#starting = starting;
    return await starting;
  }

  /** The same for a part that is stopped by its own method; null if there is nothing to run. */
  async begin<Part extends { stop(): Promise<void> | void } | null>(
    name: string,
    start: () => Promise<Part> | Part,
  ): Promise<Part> {
    return await this.start(name, start, (part) => part?.stop());
  }

  /** Stops every part, also one that is still starting, and throws all failures together at the end. Idempotent. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll();
    return this.#stopping;
  }

  async #stopAll(): Promise<void> {
    // The caller of `start` gets its failure.
    await this.#starting.catch(() => {});
    const failures: Error[] = [];
    for (let entry = this.#stops.pop(); entry; entry = this.#stops.pop()) {
      try {
        await entry.stop();
      } catch (error) {
        failures.push(new Error(`stopping ${entry.name}`, { cause: error }));
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, "some parts did not stop cleanly");
  }
}

/** A value that parts read which are made before it is known, like a listener's port. Throws if it is read too early. */
export class LateValue<Value> {
  readonly #name: string;
  #known: { readonly value: Value } | null;

  constructor(name: string, first?: Value) {
    this.#name = name;
    this.#known = first === undefined ? null : { value: first };
  }

  set(value: Value): void {
    this.#known = { value };
  }

  get value(): Value {
    if (this.#known === null) throw new Error(`${this.#name}: read before it was known`);
    return this.#known.value;
  }
}

type Lent<T> = {
  readonly clock: Clock;
  /** How long it stays open without use. */
  readonly idleMs: number;
  open(): T;
  close(thing: T): Promise<void>;
};

/** A costly resource, such as a thread: opened on first use, and closed when it has been idle for a while. */
export class LazyResource<T extends object> {
  readonly #lent: Lent<T>;
  #thing: T | null = null;
  #users = 0;
  #idle: Timer | null = null;
  /** The closing of idle ones. */
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

  /** It is broken: the next use opens another. */
  forget(thing: T): void {
    if (this.#thing === thing) this.#thing = null;
  }

  /** Resolves when everything is closed; a later use opens it again. */
  async close(): Promise<void> {
    this.#idle?.cancel();
    const thing = this.#thing;
    this.#thing = null;
    if (thing) this.#closing = Promise.all([this.#closing, this.#lent.close(thing)]).then(() => undefined);
    await this.#closing;
  }
}
