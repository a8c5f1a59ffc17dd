/** Runs that left a queue together. */
export type Departure = { readonly at: number; readonly runs: number };

/** How fast runs leave an app's queue, as far as it was observed. Times are epoch milliseconds. */
export type QueuePace = {
  /** Of runs that left it while others went on waiting, the earliest first. */
  readonly departures: readonly Departure[];
  /** How long a run takes, lately; 0 if unknown. */
  readonly meanRunMs: number;
  /** How many run at once, at most. */
  readonly capacity: number;
};

/** Fewer say too little: the first one fills the slots that were free. */
const LEAST_DEPARTURES = 3;

/**
 * When the run at that position, from 1, will begin; null if nothing is known. While runs wait, they leave as fast as the
 * service serves them, which includes cold starts, callers that go first, and the app's limits. Before enough have left,
 * it is reckoned from the time that a run takes.
 */
export function expectedStartAt(position: number, pace: QueuePace, now: number): number | null {
  const { departures, meanRunMs, capacity } = pace;
  const [first, ...later] = departures;
  const last = later.at(-1);
  if (first && last && departures.length >= LEAST_DEPARTURES) {
    const runs = later.reduce((sum, departure) => sum + departure.runs, 0);
    // The longer none has left, the slower the queue is.
    const spanMs = Math.max(last.at - first.at, ((now - first.at) * runs) / (runs + 1));
    return Math.max(now, Math.round(last.at + (position * spanMs) / runs));
  }
  if (meanRunMs <= 0 || capacity <= 0) return null;
  return Math.round(now + (position * meanRunMs) / capacity);
}
