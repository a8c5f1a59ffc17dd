const UNIT_SECONDS: Record<string, number> = { d: 86_400, h: 3_600, m: 60, s: 1, ms: 0.001 };

/** Reads "90s", "15m", "1h30m" or a bare number of seconds; null when it is neither. */
export function parseDuration(text: string): number | null {
  const trimmed = text.trim();
  const seconds = /^\d+(\.\d+)?$/.test(trimmed) ? Number(trimmed) : sumOfParts(trimmed);
  return Number.isFinite(seconds) ? seconds : null;
}

/** NaN when the text is not made of amounts with units alone. */
function sumOfParts(text: string): number {
  if (!/^(\d+(\.\d+)?(ms|[dhms])\s*)+$/.test(text)) return Number.NaN;
  let seconds = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|[dhms])/g)) {
    seconds += Number(amount) * (UNIT_SECONDS[unit ?? ""] ?? Number.NaN);
  }
  return seconds;
}
