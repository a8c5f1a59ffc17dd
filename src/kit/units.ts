const UNIT_SECONDS: Record<string, number> = { d: 86_400, h: 3_600, m: 60, s: 1, ms: 0.001 };

/** Reads "90s", "15m", "1h30m" or a number of seconds; null for anything else. */
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

const UNIT_BYTES: Record<string, number> = {
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
};

/** Reads "32MiB", "4 MB", "1.5GB" or a number of bytes; null for anything else. */
export function parseSize(text: string): number | null {
  const match = /^(\d{1,16}(?:\.\d{1,6})?)\s*([a-z]*)$/i.exec(text.trim());
  if (match === null) return null;
  const unitBytes = UNIT_BYTES[(match[2] || "B").toLowerCase()];
  if (unitBytes === undefined) return null;
  const bytes = Number(match[1]) * unitBytes;
  return Number.isSafeInteger(bytes) ? bytes : null;
}

/** A size in the largest unit that gives a whole number: "32MiB", "1000 bytes". */
export function showSize(bytes: number): string {
  for (const unit of ["GiB", "MiB", "KiB"]) {
    const unitBytes = UNIT_BYTES[unit.toLowerCase()]!;
    if (bytes >= unitBytes && bytes % unitBytes === 0) return `${bytes / unitBytes}${unit}`;
  }
  return `${bytes} bytes`;
}
