const DAY_MS = 24 * 3600 * 1000;
/** No zone sets its clocks twice within a week. */
const STEP_MS = 7 * DAY_MS;
/** Where they are set less than once a year, a piece ends after so long. */
const MAX_STEPS = 60;
/** Pieces that are kept of a zone: two for each year that is asked about. */
const MAX_KEPT = 100;

/** A time in which the clocks of a zone are not set. */
type ZonePiece = {
  readonly start: number;
  /** Not part of it. */
  readonly end: number;
  /** What the clocks show, less UTC, in milliseconds; and in the piece before this one. */
  readonly offset: number;
  readonly before: number;
};

type Zone = { readonly format: Intl.DateTimeFormat; readonly pieces: ZonePiece[] };

/** By names in lower case: they are valid in any, and there would be millions. */
const zones = new Map<string, Zone>();

/** Whether that is the name of a time zone, such as `Europe/Berlin`. */
export function isTimezone(name: string): boolean {
  // An offset such as +02:00 is none, though it has a format.
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(name)) return false;
  try {
    return Boolean(zoneOf(name));
  } catch {
    return false;
  }
}

/** The piece of a zone's time that has that moment. */
export function pieceAt(timezone: string, at: number): ZonePiece {
  const zone = zoneOf(timezone);
  const known = zone.pieces.find(({ start, end }) => start <= at && at < end);
  if (known) return known;
  if (zone.pieces.length >= MAX_KEPT) zone.pieces.length = 0;
  const piece = findPiece(zone.format, at);
  zone.pieces.push(piece);
  return piece;
}

function zoneOf(timezone: string): Zone {
  const name = timezone.toLowerCase();
  let zone = zones.get(name);
  if (!zone) {
    const format = new Intl.DateTimeFormat("en-US", {
      timeZone: timezone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
    zone = { format, pieces: [] };
    zones.set(name, zone);
  }
  return zone;
}

function findPiece(format: Intl.DateTimeFormat, at: number): ZonePiece {
  // Clocks are set at whole seconds.
  const inside = Math.floor(at / 1_000) * 1_000;
  const offset = offsetAt(format, inside);
  const start = edge(format, inside, -STEP_MS);
  return { start, end: edge(format, inside, STEP_MS), offset, before: offsetAt(format, start - 1_000) };
}

/** The first second of the piece that has one, or with a positive step of the next piece. */
function edge(format: Intl.DateTimeFormat, inside: number, stepMs: number): number {
  const offset = offsetAt(format, inside);
  let same = inside;
  for (let i = 0; i < MAX_STEPS; i++) {
    const far = same + stepMs;
    if (offsetAt(format, far) === offset) {
      same = far;
      continue;
    }
    let [low, high] = stepMs < 0 ? [far, same] : [same, far];
    const later = offsetAt(format, high);
    while (high - low > 1_000) {
      const middle = Math.floor((low + high) / 2_000) * 1_000;
      if (offsetAt(format, middle) === later) high = middle;
      else low = middle;
    }
    return high;
  }
  return same;
}

function offsetAt(format: Intl.DateTimeFormat, at: number): number {
  const shown: Record<string, number> = {};
  for (const { type, value } of format.formatToParts(at)) shown[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = shown;
  return Date.UTC(year, month - 1, day, hour, minute, second) - at;
}
