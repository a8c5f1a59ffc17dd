/** Longer than any proxy keeps a silent connection. */
const MAX_WAIT_SECONDS = 3600;
const WAIT = /(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:$|[,;])/i;

/** How long `Prefer: wait=N` says its sender will wait, in seconds; null when it says nothing of it. */
export function preferredWait(prefer: string | null): number | null {
  const seconds = prefer === null ? undefined : WAIT.exec(prefer)?.[1];
  return seconds === undefined ? null : Math.min(Number(seconds), MAX_WAIT_SECONDS);
}
