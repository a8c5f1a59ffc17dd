import { CronPattern } from "croner";
import { pieceAt } from "./time-zones.ts";

/** Times that a cron expression names in a time zone. */
type CronTimes = {
  /** 5 or 6 fields: minute, hour, day, month and weekday, and before them seconds. */
  readonly cron: string;
  readonly timezone: string;
};

const DAY_MS = 24 * 3600 * 1000;
const MAX_CHARS = 200;
/** Parsed expressions that are kept, each of 100 kB: most schedules share theirs with others. */
const MAX_KEPT = 100;
const MODE = "5-or-6-parts";
/** A fifth Monday in February comes every 28 years, unless a century is between. */
const LONGEST_MS = 50 * 366 * DAY_MS;

/** What clocks on the wall show at the times of an expression: moments as if they were in UTC. */
type Pattern = {
  readonly hours: readonly number[];
  readonly minutes: readonly number[];
  readonly seconds: readonly number[];
  /** By the number of the month, from 0. */
  readonly months: readonly unknown[];
  /** Says which days of a month fit; and for each month that was asked about, by its length and first weekday. */
  readonly days: CronPattern;
  readonly monthDays: Map<number, readonly boolean[]>;
  /** Whether it names every hour: then it follows the time that passes, not the clocks. */
  readonly isHourly: boolean;
};

const kept = new Map<string, Pattern>();

function patternOf(cron: string): Pattern {
  let pattern = kept.get(cron);
  if (!pattern) {
    if (kept.size >= MAX_KEPT) kept.clear();
    const days = parsed(cron);
    pattern = {
      hours: namedIn(days.hour),
      minutes: namedIn(days.minute),
      seconds: namedIn(days.second),
      months: days.month,
      days,
      monthDays: new Map(),
      isHourly: /^(?:[*?]|\*\/1)$/.test(fieldsOf(cron).at(-4) ?? ""),
    };
    kept.set(cron, pattern);
  }
  return pattern;
}

function fieldsOf(cron: string): string[] {
  return cron.trim().split(/\s+/);
}

function parsed(cron: string): CronPattern {
  // croner takes a ? for every day, and then a day that fits either field is every day.
  const fields = fieldsOf(cron).map((field) => (field === "?" ? "*" : field));
  return new CronPattern(fields.join(" "), undefined, { mode: MODE });
}

function namedIn(flags: readonly unknown[]): number[] {
  return flags.flatMap((isNamed, i) => (isNamed ? i : []));
}

/** The first moment after that one; null if there is none within 50 years. */
function shownAfter(pattern: Pattern, after: number): number | null {
  const least = Math.floor(after / 1_000) * 1_000 + 1_000;
  for (let day = startOfDay(least); day - after < LONGEST_MS;) {
    const date = new Date(day);
    const days = daysOf(pattern, date);
    if (!days) {
      day = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
      continue;
    }
    const time = days[date.getUTCDate() - 1] ? firstTime(pattern, Math.max(0, least - day) / 1_000) : null;
    if (time !== null) return day + time * 1_000;
    day += DAY_MS;
  }
  return null;
}

/** The last moment that is not after that one; null if there is none within 50 years. */
function shownBy(pattern: Pattern, by: number): number | null {
  for (let day = startOfDay(by); by - day < LONGEST_MS;) {
    const date = new Date(day);
    const days = daysOf(pattern, date);
    if (!days) {
      day = Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 0);
      continue;
    }
    const most = Math.min(DAY_MS - 1, by - day);
    const time = days[date.getUTCDate() - 1] ? lastTime(pattern, Math.floor(most / 1_000)) : null;
    if (time !== null) return day + time * 1_000;
    day -= DAY_MS;
  }
  return null;
}

function startOfDay(at: number): number {
  return Math.floor(at / DAY_MS) * DAY_MS;
}

/** The last occurrence of a weekday in a month, beside a bit for each of the first five. */
const LAST_OF_MONTH = 32;

/** Which days of that month fit; null if none does. croner would take 30 µs for a day, and a rare one is thousands away. */
function daysOf({ months, days, monthDays }: Pattern, date: Date): readonly boolean[] | null {
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  if (!months[month]) return null;
  const last = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  // The weekday of the day before the first, or the same some weeks on.
  const offset = (date.getUTCDay() - date.getUTCDate() + 35) % 7;
  const key = 7 * last + offset;
  let fitting = monthDays.get(key);
  if (!fitting) {
    fitting = Array.from({ length: last }, (_, i) => isDayOf(days, i + 1, last, (offset + i + 1) % 7));
    monthDays.set(key, fitting);
  }
  return fitting.includes(true) ? fitting : null;
}

function isDayOf(pattern: CronPattern, day: number, last: number, weekday: number): boolean {
  const { starDOM, starDOW } = pattern;
  const which = pattern.dayOfWeek[weekday] ?? 0;
  const isWeekdayOf =
    (which & (1 << Math.floor((day - 1) / 7))) > 0 || ((which & LAST_OF_MONTH) > 0 && day + 7 > last);
  if (starDOM) return isWeekdayOf;
  const isOfMonth = isOfDays(pattern, day, last, weekday);
  return starDOW ? isOfMonth : isOfMonth || isWeekdayOf;
}

function isOfDays(pattern: CronPattern, day: number, last: number, weekday: number): boolean {
  const { lastDayOfMonth, lastWeekday, nearestWeekdays } = pattern;
  if (pattern.day[day - 1] || (lastDayOfMonth && day === last)) return true;
  if (weekday === 0 || weekday === 6) return false;
  // On a Friday, the weekend that follows has no days of its own.
  if (lastWeekday && (day === last || (weekday === 5 && day + 2 >= last))) return true;
  const isNear = (of: number): boolean => of >= 1 && of <= last && Boolean(nearestWeekdays[of - 1]);
  const isFirst = weekday === 1 && day === 3;
  const isFinal = weekday === 5 && day + 2 === last;
  return (
    isNear(day) ||
    (weekday === 5 && isNear(day + 1)) ||
    (weekday === 1 && isNear(day - 1)) ||
    (isFirst && isNear(1)) ||
    (isFinal && isNear(last))
  );
}

/** The first second of the day that it names, from one on. */
function firstTime({ hours, minutes, seconds }: Pattern, from: number): number | null {
  for (const hour of hours) {
    if (3_600 * (hour + 1) <= from) continue;
    for (const minute of minutes) {
      const start = 3_600 * hour + 60 * minute;
      const second = start + 60 <= from ? undefined : seconds.find((named) => start + named >= from);
      if (second !== undefined) return start + second;
    }
  }
  return null;
}

/** The last second of the day that it names, up to one. */
function lastTime({ hours, minutes, seconds }: Pattern, to: number): number | null {
  for (const hour of hours.toReversed()) {
    if (3_600 * hour > to) continue;
    for (const minute of minutes.toReversed()) {
      const start = 3_600 * hour + 60 * minute;
      const second = start > to ? undefined : seconds.findLast((named) => start + named <= to);
      if (second !== undefined) return start + second;
    }
  }
  return null;
}

const NUMBERS = String.raw`(?:\*|\d+(?:-\d+)?)(?:\/\d+)?`;
const MONTH = "(?:\\d+|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)";
const WEEKDAY = "(?:\\d|SUN|MON|TUE|WED|THU|FRI|SAT)";

function listOf(item: string): RegExp {
  return new RegExp(`^(?:\\?|(?:${item})(?:,(?:${item}))*)$`, "i");
}

/** What each field takes, the last ones last: croner reads more, such as 5##2 as each Friday, and JAN1 as November. */
const FIELDS: readonly RegExp[] = [
  listOf(NUMBERS),
  listOf(NUMBERS),
  listOf(NUMBERS),
  listOf(`${NUMBERS}|LW?|\\d+W`),
  listOf(`(?:\\*|${MONTH}(?:-${MONTH})?)(?:\\/\\d+)?`),
  listOf(`(?:\\*|${WEEKDAY}(?:-${WEEKDAY})?)(?:\\/\\d+)?|${WEEKDAY}(?:-${WEEKDAY})?(?:#[1-5L]|L)`),
];

/** Why a text is not a cron expression; null if it is one. */
export function cronFault(cron: string): string | null {
  if (cron.length > MAX_CHARS) return `it is longer than ${MAX_CHARS} characters`;
  const fields = fieldsOf(cron);
  const { length } = fields;
  if (length !== 5 && length !== 6) return `it has ${length === 1 ? "1 field" : `${length} fields`}`;
  // It would make a day of the month and a weekday hold both, which may never be.
  if (cron.includes("+")) return "it has a +";
  try {
    const pattern = parsed(cron);
    const odd = fields.find((field, i) => !FIELDS.at(i - length)!.test(field));
    if (odd !== undefined) return `${odd} is not what its field takes`;
    return hasDate(pattern) ? null : "no date fits it";
  } catch (error) {
    return (error as Error).message.replace(/^CronPattern: /, "");
  }
}

const LAST_DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const;

/** Whether any date fits it, unlike "0 0 30 2 *". */
function hasDate(pattern: CronPattern): boolean {
  const { day, month, starDOW, lastDayOfMonth, lastWeekday, nearestWeekdays } = pattern;
  // A weekday is in every month, and either of both is enough.
  if (!starDOW || lastDayOfMonth || lastWeekday) return true;
  return LAST_DAYS.some((last, i) => {
    const days = Array.from({ length: last }, (_, of) => day[of] || nearestWeekdays[of]);
    return Boolean(month[i]) && days.some(Boolean);
  });
}

/**
 * The first time after that one, in epoch milliseconds; null if there is none. Where clocks are set forward, what they
 * skip counts as the moment at which they are set; where they are set back, only the first of two equal times counts. An
 * expression that names every hour is independent of both.
 */
export function nextTime({ cron, timezone }: CronTimes, afterMs: number): number | null {
  const pattern = patternOf(cron);
  for (let after = afterMs; ;) {
    const { start, end, offset, before } = pieceAt(timezone, after + 1);
    // The first moment on the clocks that counts in this piece, and from which on to look: what is found is later.
    const least = start + (pattern.isHourly ? offset : before) - 1;
    const next = shownAfter(pattern, after < start ? least : Math.max(after + offset, least));
    if (next === null) return null;
    const shown = next - offset;
    const at = Math.max(shown, start);
    if (at < end) return at;
    // In no zone is it that long before or after then.
    after = Math.max(end - 1, shown - 2 * DAY_MS);
  }
}

/** The last times from the first to the last moment, both included, at most so many, in order. */
export function lastTimes(times: CronTimes, fromMs: number, toMs: number, limit: number): number[] {
  const pattern = patternOf(times.cron);
  const found: number[] = [];
  // Backwards: of an expression that names each second, a month has two million.
  for (let to = toMs; to >= fromMs && found.length < limit;) {
    const { start, offset, before } = pieceAt(times.timezone, to);
    const least = start + (pattern.isHourly ? offset : before);
    const previous = shownBy(pattern, to + offset);
    if (previous === null) break;
    if (previous < least) {
      // In no zone is it that long before or after then; without it, each piece would search all the years again.
      to = Math.min(start - 1, previous - offset + 2 * DAY_MS);
      continue;
    }
    const at = Math.max(previous - offset, start);
    if (at >= fromMs) found.push(at);
    to = at - 1;
  }
  return found.toReversed();
}
