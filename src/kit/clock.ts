/** Where the time comes from. Tests pass one that they move by hand. */
export type Clock = {
  /** Epoch milliseconds, for people and for storage. */
  now(): number;
  /** Milliseconds that only ever grow, for measuring spans and deadlines. */
  monotonic(): number;
  after(ms: number, act: () => void): Timer;
  every(ms: number, act: () => void): Timer;
};

/** Does not keep the process alive. */
export type Timer = {
  cancel(): void;
  /** Counts from now again, even if it has fired; does nothing after `cancel`. */
  restart(): void;
};

/** `restart` costs next to nothing, so a stream can call it for every message. */
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

/** Resolves after that many milliseconds of the clock, or when the signal aborts. */
export async function pause(clock: Pick<Clock, "after">, ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return;
  await new Promise<void>((resolve) => {
    const end = (): void => {
      timer.cancel();
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = clock.after(ms, end);
    signal?.addEventListener("abort", end);
  });
}

/** Resolves with the promise, or with null after `ms`. Leaves no timer behind. */
export async function withTimeout<T>(
  ms: number,
  promise: Promise<T>,
  clock: Pick<Clock, "after"> = systemClock,
): Promise<T | null> {
  const { promise: late, resolve } = Promise.withResolvers<null>();
  const timer = clock.after(ms, () => resolve(null));
  try {
    return await Promise.race([promise, late]);
  } finally {
    timer.cancel();
  }
}

const STEP_MS = 250;

/**
 * Calls `act` after this process has run for that long; returns a function that cancels it. A pause of the process counts
 * as one step, and data that arrived meanwhile is read first: an ordinary timer would give up on an answer that is there.
 */
export function afterRunning(
  ms: number,
  act: () => void,
  clock: Pick<Clock, "after"> = systemClock,
): () => void {
  let left = Math.ceil(ms / STEP_MS);
  let turn: NodeJS.Immediate | undefined;
  const timer = clock.after(Math.min(ms, STEP_MS), () => {
    left -= 1;
    // After a turn of the event loop.
    turn = setImmediate(() => (left > 0 ? timer.restart() : act()));
  });
  return () => {
    timer.cancel();
    clearImmediate(turn);
  };
}

/** A clock that starts at the current time and then follows the monotonic one: setting the machine's clock has no effect. */
export function steady(clock: Clock): Clock {
  const start = clock.now() - clock.monotonic();
  return {
    now: () => Math.round(start + clock.monotonic()),
    monotonic: () => clock.monotonic(),
    after: (ms, act) => clock.after(ms, act),
    every: (ms, act) => clock.every(ms, act),
  };
}
