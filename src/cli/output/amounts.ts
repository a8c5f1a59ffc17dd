const STEPS: readonly (readonly [seconds: number, unit: string])[] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** How long ago a time was, or how far ahead it is, in one unit; `–` for none. */
export function relative(time: string | null | undefined, nowMs = Date.now()): string {
  if (!time) return "–";
  const seconds = Math.round((nowMs - Date.parse(time)) / 1000);
  const size = Math.abs(seconds);
  if (size < 1) return "now";
  const [step, unit] = STEPS.find(([step]) => size >= step) ?? [1, "s"];
  const amount = `${Math.floor(size / step)} ${unit}`;
  return seconds > 0 ? `${amount} ago` : `in ${amount}`;
}

/** A duration as people read it: `0.4 ms`, `310 ms`, `4.2 s`, `3 min 10 s`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  const parts = [
    [Math.floor(seconds / 3_600), "h"],
    [Math.floor((seconds % 3_600) / 60), "min"],
    [seconds % 60, "s"],
  ] as const;
  const from = parts.findIndex(([amount]) => amount > 0);
  // Two units are exact enough, and nothing is said with a zero.
  return parts
    .slice(from, from + 2)
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => `${amount} ${unit}`)
    .join(" ");
}

/** An amount of bytes as people read it: `312 B`, `4.0 KB`, `1.5 GB`. */
export function bytes(count: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let [value, unit] = [count, 0];
  while (value >= 1_000 && unit < units.length - 1) [value, unit] = [value / 1_000, unit + 1];
  return unit === 0 ? `${value} B` : `${value.toFixed(1)} ${units[unit]}`;
}
