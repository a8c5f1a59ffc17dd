/** A line that an app printed. */
export type LogLine = {
  /** It sorts by time: see `logIdAt`. */
  readonly id: string;
  readonly appNumber: number;
  /** Null if no run printed it, or if the run is unknown. */
  readonly runId: string | null;
  readonly replicaId: string;
  /** 1, 2, 3… within the replica. */
  readonly lineNumber: number;
  readonly stream: LogStream;
  readonly text: string;
};

/** In the order of their codes in the store. */
export const LOG_STREAMS = ["stdout", "stderr"] as const;
export type LogStream = (typeof LOG_STREAMS)[number];

/** Tags before and after those of all ids of the same nanosecond. */
export const FIRST_TAG = "0".repeat(14);
export const LAST_TAG = "f".repeat(14);

const NS_PER_MS = 1_000_000n;
const MAX_NS = 2n ** 63n - 1n;
/** Years of four digits, any fraction of a second, an offset. */
const RFC_3339 = /^(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)$/;

/**
 * The id of a line printed at that nanosecond: a UUID (version 8) that begins with the time, so that ids sort by time.
 * The tag, 14 hex digits, is the writer's own.
 */
export function logIdAt(nanoseconds: bigint, tag: string): string {
  const time = nanoseconds.toString(16).padStart(16, "0");
  const middle = `8${time.slice(12, 15)}-8${time.slice(15)}${tag.slice(0, 2)}`;
  return `${time.slice(0, 8)}-${time.slice(8, 12)}-${middle}-${tag.slice(2)}`;
}

/** The line's time, in nanoseconds since 1970. */
export function nanosecondsOf(id: string): bigint {
  return BigInt(`0x${id.slice(0, 8)}${id.slice(9, 13)}${id.slice(15, 18)}${id.slice(20, 21)}`);
}

/** The line's time, as RFC 3339 with nine digits of a second. */
export function timestampOf(id: string): string {
  const nanoseconds = nanosecondsOf(id);
  const date = new Date(Number(nanoseconds / NS_PER_MS)).toISOString();
  return `${date.slice(0, -1)}${String(nanoseconds % NS_PER_MS).padStart(6, "0")}Z`;
}

/** The nanoseconds of a RFC 3339 time, or the nearest that a line can have; null for anything else. */
export function parseTimestamp(text: string): bigint | null {
  const [, time, fraction = "", offset] = RFC_3339.exec(text) ?? [];
  if (time === undefined || offset === undefined) return null;
  const milliseconds = Date.parse(`${time.slice(0, 10)}T${time.slice(11)}${offset.toUpperCase()}`);
  if (Number.isNaN(milliseconds)) return null;
  const nanoseconds = BigInt(milliseconds) * NS_PER_MS + BigInt(fraction.slice(0, 9).padEnd(9, "0"));
  if (nanoseconds < 0n) return 0n;
  return nanoseconds > MAX_NS ? MAX_NS : nanoseconds;
}
