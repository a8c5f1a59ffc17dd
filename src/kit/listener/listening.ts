/**
 * How many connections may wait to be accepted. Node's default of 511 overflows in a crowd, and a caller who gets no
 * place waits a second.
 */
export const BACKLOG = 4_096;

/** At most this long, so that those whose time is over end a few at a time: thousands at once stop everybody's answers. */
const CHECK_MS = 200;

/** How often a listener looks for requests that come too slowly, in milliseconds. */
export function checkingInterval(timeoutMs: number): number {
  return Math.min(CHECK_MS, timeoutMs / 5);
}

/**
 * How many requests a connection may have sent whose answers have not left. One packet holds well over a thousand, and
 * each keeps some kilobytes until its turn: a stranger's 40 connections that read nothing took 600 MB, and 40 s of
 * everybody's time. A connection with more ends, as HTTP allows.
 */
export const MAX_PIPELINED = 100;
