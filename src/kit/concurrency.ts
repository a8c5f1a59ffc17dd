import type { Clock, Timer } from "./clock.ts";

export type LaneLimits = {
  /** How much may be under way at once, of all. */
  readonly total: number;
  /** How much of one key. */
  readonly perKey: number;
  /** How many of one key may wait beyond that. */
  readonly waiting: number;
  /** How long one waits at most. */
  readonly waitMs: number;
};

/** Releases the place. Idempotent. */
export type Leave = () => void;

type Waiter = {
  readonly resolve: (leave: Leave | null) => void;
  readonly timer: Timer;
};

/** Limits how much work runs at once. Keys take turns, so a key with much work does not delay the others. */
export class FairLane {
  readonly #limits: LaneLimits;
  readonly #clock: Clock;
  readonly #running = new Map<string, number>();
  /** In the order in which keys have their turn. */
  readonly #queues = new Map<string, Set<Waiter>>();
  #total = 0;

  constructor(limits: LaneLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** How much is under way, and how much waits. */
  get load(): { readonly running: number; readonly waiting: number } {
    const waiting = [...this.#queues.values()].reduce((sum, { size }) => sum + size, 0);
    return { running: this.#total, waiting };
  }

  /** Resolves when there is a place, or with null when there are too many before it, or it would take too long. */
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
    return this.#total < total && (this.#running.get(key) ?? 0) < perKey;
  }

  #admit(key: string): Leave {
    this.#total += 1;
    this.#running.set(key, (this.#running.get(key) ?? 0) + 1);
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      this.#total -= 1;
      const left = (this.#running.get(key) ?? 1) - 1;
      if (left > 0) this.#running.set(key, left);
      else this.#running.delete(key);
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
      if (this.#total >= this.#limits.total) return;
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

/**
 * Works through all items, at most so many at a time. After the first failure nothing more is begun; it is thrown
 * when what was begun has ended.
 */
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
  readonly #counts = new Map<Key, number>();

  has(key: Key): boolean {
    return this.#counts.has(key);
  }

  /** How often it is being done now. */
  of(key: Key): number {
    return this.#counts.get(key) ?? 0;
  }

  /** Counts while the work is under way. */
  async during<T>(key: Key, work: () => Promise<T>): Promise<T> {
    this.#counts.set(key, this.of(key) + 1);
    try {
      return await work();
    } finally {
      const others = this.of(key) - 1;
      if (others > 0) this.#counts.set(key, others);
      else this.#counts.delete(key);
    }
  }
}

/** A condition variable: wakes all waiters at each notification. */
export class Condition {
  #waiting = new Set<() => void>();

  /** Whether there are waiters. */
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

/** Lets pieces of work on one thing happen one after the other, in the order they came. */
export class Turns<Key> {
  readonly #last = new Map<Key, Promise<unknown>>();

  /** Resolves or rejects as the work does, whatever became of the work before it. */
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
