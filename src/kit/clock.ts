/** Where the time comes from. Tests pass one that they move by hand. */
export type Clock = {
  /** Epoch milliseconds, for what people read and for what outlives the process. */
  now(): number;
  /** Milliseconds that only ever grow, for measuring spans and deadlines. */
  monotonic(): number;
  /** Calls `act` once, after so many milliseconds. */
  after(ms: number, act: () => void): Timer;
  /** Calls `act` again and again, every so many milliseconds. */
  every(ms: number, act: () => void): Timer;
};

/** Something that a clock will do. It keeps no process alive. */
export type Timer = {
  cancel(): void;
  /** Counts from now again, also when it has been done already; not after a cancel. */
  restart(): void;
};

/** Node's own timers: `restart` costs next to nothing, so a stream can call it for every message. */
class SystemTimer implements Timer {
  readonly #timeout: NodeJS.Timeout;
  #isCancelled = false;

  constructor(timeout: NodeJS.Timeout) {
    this.#timeout = timeout.unref();
  }

  cancel(): void {
    this.#isCancelled = true;
    clearTimeout(this.#timeout);
  }

  restart(): void {
    if (!this.#isCancelled) this.#timeout.refresh();
  }
}

/** Milliseconds that only ever grow, the same in all threads of the process. */
export function threadsMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after: (ms, act) => new SystemTimer(setTimeout(act, ms)),
  every: (ms, act) => new SystemTimer(setInterval(act, ms)),
};
