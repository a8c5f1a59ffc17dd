const UNIT_SECONDS: Record<string, number> = { d: 86_400, h: 3_600, m: 60, s: 1, ms: 0.001 };

/** Reads "90s", "15m", "1h30m" or a bare number of seconds; null when it is neither. */
export function parseDuration(text: string): number | null {
  const trimmed = text.trim();
  if (/^\d+(\.\d+)?$/.test(trimmed)) return Number(trimmed);
  if (!/^(\d+(\.\d+)?(ms|[dhms])\s*)+$/.test(trimmed)) return null;
  let seconds = 0;
  for (const [, amount, unit] of trimmed.matchAll(/(\d+(?:\.\d+)?)(ms|[dhms])/g)) {
    seconds += Number(amount) * (UNIT_SECONDS[unit ?? ""] ?? Number.NaN);
  }
  return Number.isFinite(seconds) ? seconds : null;
}

/** Writes seconds the way people read them: "1h30m", "45s". */
export function formatDuration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)}ms`;
  const parts: string[] = [];
  let rest = Math.round(seconds);
  for (const unit of ["d", "h", "m", "s"]) {
    const size = UNIT_SECONDS[unit] ?? 1;
    const count = Math.floor(rest / size);
    if (count > 0) parts.push(`${count}${unit}`);
    rest -= count * size;
  }
  return parts.join("");
}
