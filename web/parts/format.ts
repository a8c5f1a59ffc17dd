const COUNT = new Intl.NumberFormat("en");
const ONE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

const YEAR_SECONDS = 365 * 86_400;

/** A count with its thousands set apart. */
export function count(value: number): string {
  return COUNT.format(value);
}

/** A span of milliseconds as people say it: 40 µs, 340 ms, 2.4 s, 3 m 20 s, 2 h 5 m. */
export function span(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms > 0 && ms < 0.9995) return `${Math.max(1, Math.round(ms * 1_000))} µs`;
  if (ms < 10) return `${ONE.format(ms)} ms`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${ONE.format(ms / 1_000)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} m ${Math.floor((ms % 60_000) / 1_000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
}

const SHARE = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 2 });

/** A share of a whole, from 0 to 1, in percent. */
export function share(value: number | null): string {
  return value === null ? "–" : SHARE.format(value);
}

/** A number of bytes: 512 B, 3.4 KB, 2 MB. */
export function bytes(value: number): string {
  if (value < 1_000) return `${value} B`;
  for (const [unit, size] of [
    ["KB", 1e3],
    ["MB", 1e6],
    ["GB", 1e9],
  ] as const) {
    if (value < size * 1_000 || unit === "GB") return `${ONE.format(value / size)} ${unit}`;
  }
  return "";
}

/** How long ago, or in how long: "just now", "4 min ago", "in 3 days". */
export function relative(at: number, now: number): string {
  const seconds = Math.round((now - at) / 1_000);
  const past = Math.abs(seconds);
  const text =
    past < 60
      ? `${past} s`
      : past < 3_600
        ? `${Math.floor(past / 60)} min`
        : past < 86_400
          ? `${Math.floor(past / 3_600)} h`
          : past < 2 * YEAR_SECONDS
            ? `${Math.floor(past / 86_400)} days`
            : `${Math.floor(past / YEAR_SECONDS)} years`;
  if (past < 5) return "just now";
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

/** The exact time in the viewer's zone. */
export function exact(at: number): string {
  return EXACT.format(at);
}
