import type { Clock, Timer } from "./clock.ts";

/** What may run at once, of all keys and of one key; how many of one key may wait beyond that, and how long. */
export type LaneLimits = {
  readonly total: number;
  readonly perKey: number;
  readonly waiting: number;
  readonly waitMs: number;
};

/** Releases the place. Idempotent. */
export type Leave = () => void;

type Waiter = { readonly resolve: (leave: Leave | null) => void; readonly timer: Timer };

/** Limits how much work runs at once. Keys take turns, so a key with much work does not delay the others. */
export class FairLane {
  readonly #limits: LaneLimits;
  readonly #clock: Clock;
  readonly #running = new Counts<string>();
  /** In the order in which keys have their turn. */
  readonly #queues = new Map<string, Set<Waiter>>();

  constructor(limits: LaneLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  get load(): { readonly running: number; readonly waiting: number } {
    const waiting = [...this.#queues.values()].reduce((sum, { size }) => sum + size, 0);
    return { running: this.#running.total, waiting };
  }

  /** Resolves with a place; or with null if too many wait, it takes too long, or the signal aborts. */
  async enter(key: string, signal?: AbortSignal): Promise<Leave | null> {
    const queue = this.#queues.get(key);
    if (!queue && this.#hasRoom(key)) return this.#admit(key);
    if ((queue?.size ?? 0) >= this.#limits.waiting || signal?.aborted) return null;
    return await this.#wait(key, signal);
  }

  /** Does the work when there is a place; throws `crowded()` where `enter` gives null. */
  async run<Result>(key: string, crowded: () => Error, work: () => Promise<Result>): Promise<Result> {
    const leave = await this.enter(key);
    if (!leave) throw crowded();
    try {
      return await work();
    } finally {
      leave();
    }
  }

  #hasRoom(key: string): boolean {
    const { total, perKey } = this.#limits;
    return this.#running.total < total && this.#running.of(key) < perKey;
  }

  #admit(key: string): Leave {
    this.#running.add(key, 1);
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      this.#running.add(key, -1);
      this.#next();
    };
  }

  async #wait(key: string, signal: AbortSignal | undefined): Promise<Leave | null> {
    const { promise, resolve } = Promise.withResolvers<Leave | null>();
    const giveUp = (): void => {
      this.#remove(key, waiter);
      resolve(null);
    };
    const waiter: Waiter = { resolve, timer: this.#clock.after(this.#limits.waitMs, giveUp) };
    const queue = this.#queues.get(key);
    if (queue) queue.add(waiter);
    else this.#queues.set(key, new Set([waiter]));
    signal?.addEventListener("abort", giveUp, { once: true });
    try {
      return await promise;
    } finally {
      waiter.timer.cancel();
      signal?.removeEventListener("abort", giveUp);
    }
  }

  /** Admits the first waiter of the first key that has room, and moves that key to the end of the line. */
  #next(): void {
    for (const [key, queue] of this.#queues) {
      if (this.#running.total >= this.#limits.total) return;
      const [waiter] = queue;
      if (!waiter || !this.#hasRoom(key)) continue;
      this.#remove(key, waiter);
      if (this.#queues.delete(key)) this.#queues.set(key, queue);
      waiter.resolve(this.#admit(key));
      return;
    }
  }

  #remove(key: string, waiter: Waiter): void {
    const queue = this.#queues.get(key);
    if (queue?.delete(waiter) && queue.size === 0) this.#queues.delete(key);
  }
}

/** Works through all items, `atOnce` at a time. Begins nothing after the first failure, and throws it at the end. */
export async function forEachConcurrently<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  const left = items.values();
  const worker = async (): Promise<void> => {
    for (const item of left) {
      if (failures.length > 0) return;
      try {
        await work(item);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker));
  if (failures.length > 0) throw failures[0];
}

/** Counts operations in progress, by key. */
export class Counts<Key> {
  total = 0;
  readonly #counts = new Map<Key, number>();

  has(key: Key): boolean {
    return this.#counts.has(key);
  }

  of(key: Key): number {
    return this.#counts.get(key) ?? 0;
  }

  /** Returns the new count of the key. */
  add(key: Key, more: 1 | -1): number {
    const count = this.of(key) + more;
    this.total += more;
    if (count > 0) this.#counts.set(key, count);
    else this.#counts.delete(key);
    return count;
  }

  async during<T>(key: Key, work: () => Promise<T>): Promise<T> {
    this.add(key, 1);
    try {
      return await work();
    } finally {
      this.add(key, -1);
    }
  }
}

/** A condition variable: wakes all waiters at each notification. */
export class Condition {
  #waiting = new Set<() => void>();

  get isAwaited(): boolean {
    return this.#waiting.size > 0;
  }

  /** Resolves at the next notification, or when the signal aborts. */
  async wait(signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return;
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        this.#waiting.delete(wake);
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal?.addEventListener("abort", wake);
    });
  }

  notify(): void {
    for (const wake of this.#waiting) wake();
  }
}

/** Does work on the same key in order, one piece at a time. */
export class Turns<Key> {
  readonly #last = new Map<Key, Promise<unknown>>();

  /** Resolves or rejects as the work does, even if the work before it failed. */
  async take<Result>(key: Key, work: () => Promise<Result>): Promise<Result> {
    const before = this.#last.get(key);
    const mine = before ? before.then(work, work) : work();
    this.#last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(key) === mine) this.#last.delete(key);
    }
  }
}

/** Calls that come while the work is in progress share it and its result. */
export function shared<Result>(work: () => Promise<Result>): () => Promise<Result> {
  let running: Promise<Result> | null = null;
  return () => (running ??= work().finally(() => (running = null)));
}
