/** Where the time comes from. Tests pass one that they move by hand. */
export type Clock = {
  /** Epoch milliseconds, for what people read and for what outlives the process. */
  now(): number;
  /** Milliseconds that only ever grow, for measuring spans and deadlines. */
  monotonic(): number;
};

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
};
