/** How many connections may wait to be accepted. Node's own 511 overflow in a crowd, and who is in none waits a second. */
export const BACKLOG = 4_096;

/** At most this long, so that those whose time is over end a few at a time: thousands at once stop everybody's answers. */
const CHECK_MS = 200;

/** How often a listener looks for requests that come too slowly, in milliseconds. */
export function checkingInterval(timeoutMs: number): number {
  return Math.min(CHECK_MS, timeoutMs / 5);
}
