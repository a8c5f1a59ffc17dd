/** The wait before try number `attempt` (from 1): doubling from `baseMs`, never over `maxMs`, spread by ±20 %. */
export function backoffMs(
  attempt: number,
  baseMs: number,
  maxMs: number,
  random: () => number = Math.random,
): number {
  const plain = Math.min(maxMs, baseMs * 2 ** (attempt - 1));
  return Math.round(plain * (0.8 + 0.4 * random()));
}
