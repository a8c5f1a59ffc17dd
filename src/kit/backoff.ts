const SPREAD = 0.2;

/** The wait before try number `attempt` (from 1): doubling from `baseMs`, spread by ±20 %, never over `maxMs`. */
export function backoffMs(
  attempt: number,
  baseMs: number,
  maxMs: number,
  random: () => number = Math.random,
): number {
  // The ceiling leaves room for the spread: a hard cut would line up everyone who waits longest.
  const plain = Math.min(maxMs / (1 + SPREAD), baseMs * 2 ** (attempt - 1));
  return Math.round(plain * (1 - SPREAD + 2 * SPREAD * random()));
}
