import { Cron } from "croner";
import * as fc from "fast-check";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { cronFault, lastTimes, nextTime } from "../../../src/kit/cron.ts";
import { isTimezone } from "../../../src/kit/time-zones.ts";
import { verifies } from "../../verifies.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** The times of an expression in a span, as UTC without the seconds. */
function times(cron: string, timezone: string, from: string, to: string): string[] {
  const found: string[] = [];
  for (let at = nextTime({ cron, timezone }, Date.parse(from)); at !== null && at <= Date.parse(to);) {
    found.push(new Date(at).toISOString().slice(5, 16));
    at = nextTime({ cron, timezone }, at);
  }
  return found;
}

const BERLIN = "Europe/Berlin";
/** Clocks in Berlin were set from 2 to 3, and from 3 to 2, at these times. */
const SPRING = ["2026-03-28T12:00Z", "2026-03-30T12:00Z"] as const;
const AUTUMN = ["2026-10-24T12:00Z", "2026-10-26T12:00Z"] as const;

describe("where clocks are set", () => {
  verifies("schedules.gap", "a time that does not exist fires once, when the clocks are set", () => {
    expect(times("30 2 * * *", BERLIN, ...SPRING)).toEqual(["03-29T01:00", "03-30T00:30"]);
    expect(times("0 2 * * *", BERLIN, ...SPRING)).toEqual(["03-29T01:00", "03-30T00:00"]);
    expect(times("*/10 2 * * *", BERLIN, ...SPRING).slice(0, 2)).toEqual(["03-29T01:00", "03-30T00:00"]);
    // The time that follows is the same moment.
    expect(times("0 2,3 * * *", BERLIN, ...SPRING)).toEqual(["03-29T01:00", "03-30T00:00", "03-30T01:00"]);
    // A whole day that an island left out.
    expect(times("0 12 30 * *", "Pacific/Apia", "2011-12-01T00:00Z", "2011-12-31T23:00Z")).toEqual([
      "12-30T10:00",
    ]);
  });

  verifies("schedules.twice", "a time that exists twice fires once", () => {
    expect(times("30 2 * * *", BERLIN, ...AUTUMN)).toEqual(["10-25T00:30", "10-26T01:30"]);
    expect(times("*/30 2-3 * * *", BERLIN, ...AUTUMN)).toEqual([
      "10-25T00:00",
      "10-25T00:30",
      "10-25T02:00",
      "10-25T02:30",
      "10-26T01:00",
      "10-26T01:30",
      "10-26T02:00",
      "10-26T02:30",
    ]);
    // Whatever is asked from: also from within the hour that comes again.
    for (const from of ["00:30", "00:45", "01:00", "01:15", "01:30", "01:45"])
      expect(times("30 2 * * *", BERLIN, `2026-10-25T${from}Z`, "2026-10-26T12:00Z")).toEqual([
        "10-26T01:30",
      ]);
    // Half an hour, on the other half of the earth.
    expect(times("45 1 * * *", "Australia/Lord_Howe", "2026-04-03T20:00Z", "2026-04-05T20:00Z")).toEqual([
      "04-04T14:45",
      "04-05T15:15",
    ]);
  });

  verifies("schedules.hourly", "what names every hour follows the time that passes", () => {
    for (const [from, to] of [SPRING, AUTUMN]) {
      const all = times("15 * * * *", BERLIN, from, to);
      expect(all).toHaveLength((Date.parse(to) - Date.parse(from)) / HOUR_MS);
      expect(times("*/20 * * * *", BERLIN, from, to)).toHaveLength(3 * all.length);
    }
  });
});

/** Expressions of which some name few times, and some many. */
const field = (max: number, least = 0) =>
  fc.oneof(
    fc.constant("*"),
    fc.integer({ min: least, max }).map(String),
    fc.integer({ min: 2, max: 9 }).map((step) => `*/${step}`),
    fc.tuple(fc.integer({ min: least, max }), fc.integer({ min: least, max })).map((two) => {
      const [low, high] = two.toSorted((a, b) => a - b);
      return `${low}-${high}`;
    }),
  );
const expression = fc
  .tuple(
    fc.constantFrom("", "0 ", "30 ", "*/20 "),
    field(59),
    field(23),
    fc.constantFrom("*", "1", "15", "*/5", "L"),
    fc.constantFrom("*", "*", "3", "10", "*/2"),
    fc.constantFrom("*", "*", "0", "1-5"),
  )
  .map(([second, ...rest]) => second + rest.join(" "));
const zone = fc.constantFrom("UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca");
const moment = fc.integer({ min: Date.UTC(2025, 0, 1), max: Date.UTC(2028, 0, 1) });

describe("in any zone, at any time", () => {
  test("each time is later than the one that was asked from, by whole seconds", () => {
    fc.assert(
      fc.property(expression, zone, moment, (cron, timezone, from) => {
        const found: number[] = [];
        for (let at = nextTime({ cron, timezone }, from); at !== null && found.length < 5;) {
          found.push(at);
          at = nextTime({ cron, timezone }, at);
        }
        expect(found.filter((at, i) => at <= (found[i - 1] ?? from) || at % 1_000 !== 0)).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test("the last times are those that were next before", () => {
    fc.assert(
      fc.property(expression, zone, moment, fc.integer({ min: 1, max: 9 }), (cron, timezone, from, limit) => {
        const forward: number[] = [];
        for (let at: number | null = from; forward.length < 12;) {
          at = nextTime({ cron, timezone }, at);
          if (at === null) break;
          forward.push(at);
        }
        const [first, last] = [forward[0], forward.at(-1)];
        if (first === undefined || last === undefined) return;
        expect(lastTimes({ cron, timezone }, first, last + 500, limit)).toEqual(forward.slice(-limit));
        expect(lastTimes({ cron, timezone }, first, last - 1, 100)).toEqual(forward.slice(0, -1));
      }),
      { numRuns: 300 },
    );
  });
});

test("the first days of a month come after the last ones of a short month", () => {
  const days = (cron: string) => times(cron, "UTC", "2025-02-20T12:00Z", "2025-03-05T00:00Z");
  expect(days("0 0 1,30 * *")).toEqual(["03-01T00:00"]);
  expect(days("0 0 1 * SUN")).toEqual(["02-23T00:00", "03-01T00:00", "03-02T00:00"]);
  expect(days("0 0 L * *")).toEqual(["02-28T00:00"]);
  expect(days("0 0 1W * *")).toEqual(["03-03T00:00"]);
  expect(days("0 0 * * 2#1,5L")).toEqual(["02-28T00:00", "03-04T00:00"]);
});

test("a ? is no day of its own", () => {
  const days = (cron: string) => times(cron, "UTC", "2026-01-01T12:00Z", "2026-02-03T00:00Z");
  expect(days("0 0 ? * 1")).toEqual(days("0 0 * * 1"));
  expect(days("0 0 1 * ?")).toEqual(["02-01T00:00"]);
});

test("the days are those that croner knows", () => {
  const days = fc.constantFrom(
    "*",
    "1W",
    "31W",
    "15W,30W",
    "2W,29W",
    "L",
    "L,3",
    "LW",
    "*/7",
    "1,31",
    "28-31",
  );
  const weekdays = fc.constantFrom("*", "1#5", "5L", "1-3#1", "0", "7#2,SAT", "MON-FRI", "6#L,3#4", "*/3");
  fc.assert(
    fc.property(days, weekdays, moment, (day, weekday, from) => {
      const cron = `0 0 ${day} * ${weekday}`;
      const croner = new Cron(`0 ${cron}`, { utcOffset: 0, paused: true });
      const first = Math.ceil(from / DAY_MS) * DAY_MS;
      const span = Array.from({ length: 70 }, (_, i) => first + i * DAY_MS);
      const found = lastTimes({ cron, timezone: "UTC" }, first, span.at(-1)!, 100);
      expect(found).toEqual(span.filter((at) => croner.match(new Date(at))));
      const next = nextTime({ cron, timezone: "UTC" }, first - 1);
      expect(found).toEqual(next! > span.at(-1)! ? [] : [next, ...found.slice(1)]);
    }),
    { numRuns: 200 },
  );
});

/** Whether a field of numbers, lists, ranges and steps has that one. */
function has(of: string, value: number): boolean {
  return of.split(",").some((part) => {
    const [range = "", step = "1"] = part.split("/");
    const [low, high = low] = range === "*" ? [0, 99] : range.split("-").map(Number);
    return low! <= value && value <= high! && (value - low!) % Number(step) === 0;
  });
}

/** The same times by going from minute to minute, and looking at a clock on the wall. */
function watched(minute: string, hour: string, timezone: string, from: number, to: number): number[] {
  const format = new Intl.DateTimeFormat("sv-SE", {
    timeZone: timezone,
    dateStyle: "short",
    timeStyle: "short",
  });
  const shownAt = (at: number) => Date.parse(`${format.format(at).replace(" ", "T")}Z`);
  const fits = (shown: number) => {
    const date = new Date(shown);
    return has(minute, date.getUTCMinutes()) && has(hour, date.getUTCHours());
  };
  const found: number[] = [];
  let latest = shownAt(from - DAY_MS);
  for (let at = from - DAY_MS + MINUTE_MS; at <= to; at += MINUTE_MS) {
    const shown = shownAt(at);
    let isTime = false;
    if (hour === "*") isTime = fits(shown);
    else for (let next = latest + MINUTE_MS; next <= shown; next += MINUTE_MS) isTime ||= fits(next);
    latest = Math.max(latest, shown);
    if (isTime && at > from) found.push(at);
  }
  return found;
}

/** Days at which clocks are set: by an hour, by half an hour, at midnight, by a day, for good, and under other rules. */
const SET = [
  [BERLIN, "2026-03-29"],
  [BERLIN, "2026-10-25"],
  ["America/New_York", "2026-03-08"],
  ["America/New_York", "2026-11-01"],
  ["Australia/Lord_Howe", "2026-04-04"],
  ["Australia/Lord_Howe", "2026-10-03"],
  ["America/Havana", "2026-11-01"],
  ["Africa/Cairo", "2026-04-24"],
  ["Africa/Casablanca", "2026-02-15"],
  ["Africa/Casablanca", "2026-03-22"],
  ["Antarctica/Troll", "2026-03-29"],
  ["Pacific/Apia", "2011-12-30"],
  ["Europe/Istanbul", "2016-09-07"],
  ["Asia/Pyongyang", "2018-05-04"],
  ["America/Caracas", "2016-05-01"],
] as const;

verifies(["schedules.gap", "schedules.twice"], "the times are those of a clock on the wall", () => {
  const minutes = fc.oneof(field(59), fc.constantFrom("0", "30", "*/30", "59", "1,31"));
  const hours = fc.oneof(field(23), fc.constantFrom("0", "1", "2", "3", "0-3", "23", "1,2"));
  fc.assert(
    fc.property(
      fc.constantFrom(...SET),
      minutes,
      hours,
      fc.nat(47 * 60),
      ([timezone, day], minute, hour, after) => {
        const from = Date.parse(day) - DAY_MS + after * MINUTE_MS;
        const to = Date.parse(day) + 2 * DAY_MS;
        const expected = watched(minute, hour, timezone, from, to);
        const cron = `${minute} ${hour} * * *`;
        const found: number[] = [];
        for (
          let at = nextTime({ cron, timezone }, from);
          at !== null && at <= to;
          at = nextTime({ cron, timezone }, at)
        )
          found.push(at);
        expect(found).toEqual(expected);
        expect(lastTimes({ cron, timezone }, from + 1, to, 10_000)).toEqual(expected);
      },
    ),
    { numRuns: 60 },
  );
});

test("the last time of a rare expression is found without a look at each year's clocks", () => {
  const asked = vi.spyOn(Intl.DateTimeFormat.prototype, "formatToParts");
  onTestFinished(() => asked.mockRestore());
  const rare = { cron: "0 0 * 2 1#5", timezone: "Europe/Vienna" };
  const last = Date.parse("2016-02-28T00:00Z");
  expect(lastTimes(rare, Date.UTC(1988, 2, 1), last, 100)).toEqual([]);
  expect(asked.mock.calls.length).toBeLessThan(1_000);
});

test("a time that comes every four years is found", () => {
  expect(times("0 0 29 2 *", BERLIN, "2025-01-01T00:00Z", "2033-01-01T00:00Z")).toEqual([
    "02-28T23:00",
    "02-28T23:00",
  ]);
});

test("the last times of a long span are found from its end", () => {
  const to = Date.UTC(2026, 5, 1);
  const found = lastTimes({ cron: "* * * * * *", timezone: BERLIN }, Date.UTC(2020, 0, 1), to, 3);
  expect(found).toEqual([to - 2_000, to - 1_000, to]);
});

test.each([
  ["* * * *", "it has 4 fields"],
  ["@daily", "it has 1 field"],
  ["* * * * * * *", "it has 7 fields"],
  ["0 0 30 2 *", "no date fits it"],
  ["0 0 31 2,4 *", "no date fits it"],
  ["0 0 31W 6 *", "no date fits it"],
  ["0 0 1 * +1#5", "it has a +"],
  ["0 0 * * 5##2", "5##2 is not what its field takes"],
  ["0 0 * * 5#2#3", "5#2#3 is not what its field takes"],
  ["0 0 2L * *", "2L is not what its field takes"],
  ["0 0 1 JAN1 *", "JAN1 is not what its field takes"],
  ["60 * * * *", "Invalid value for minute: 60"],
  ["0 0 * * 8", "Invalid value for dayOfWeek: 8"],
  [`0 0 ${"1,".repeat(200)}1 * *`, "it is longer than 200 characters"],
])("%s is no expression", (cron, fault) => {
  expect(cronFault(cron)).toBe(fault);
});

test.each([
  "* * * * *",
  "*/5 * * * * *",
  "0 9 * * MON-FRI",
  "0 0 L 2 *",
  "0 0 31 2 1",
  "0 0 29 2 *",
  "0 0 L,15,3W * 0-7",
  "0 0 LW jan-MAR/2,12 sat-SUN,1-5/2,TUE#L,4L",
  "*/59 1-5/2 ? ? ?",
  " 0 0 * JAN 0 ",
])("%s is one", (cron) => {
  expect(cronFault(cron)).toBeNull();
});

test("a zone is kept once, however its name is spelt", () => {
  const made = vi.spyOn(Intl, "DateTimeFormat");
  onTestFinished(() => made.mockRestore());
  for (const name of ["asia/tokyo", "Asia/Tokyo", "ASIA/TOKYO"]) expect(isTimezone(name)).toBe(true);
  expect(made).toHaveBeenCalledTimes(1);
});

test("zones go by their names", () => {
  for (const name of ["UTC", BERLIN, "Etc/GMT+5", "America/Argentina/Buenos_Aires"])
    expect([name, isTimezone(name)]).toEqual([name, true]);
  for (const name of ["", "Mars/Olympus", "+02:00", "local", "../etc", "Europe/Berlin "])
    expect([name, isTimezone(name)]).toEqual([name, false]);
});
