/** Longer than any proxy keeps a silent connection. */
const MAX_WAIT_SECONDS = 3600;
const WAIT = /(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:$|[,;])/i;

/** How long the caller will wait according to `Prefer: wait=N`, in seconds; null if the header does not say. */
export function preferredWait(prefer: string | null): number | null {
  const seconds = prefer === null ? undefined : WAIT.exec(prefer)?.[1];
  return seconds === undefined ? null : Math.min(Number(seconds), MAX_WAIT_SECONDS);
}
