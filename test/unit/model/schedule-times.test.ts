import { describe, expect, test } from "vitest";
import type { Schedule, ScheduleSpec } from "../../../src/model/schedule.ts";
import { dueTimes, nextTimes, planSchedules, timeAfter } from "../../../src/model/schedule-times.ts";
import { verifies } from "../../verifies.ts";

const MINUTE_MS = 60_000;
const NOON = Date.UTC(2026, 0, 15, 12);
const SPEC: ScheduleSpec = {
  cron: "* * * * *",
  timezone: "UTC",
  functionName: "run",
  input: {},
  overlap: "skip",
  catchUp: "none",
  jitterSeconds: 0,
};

function scheduleOf(spec: Partial<ScheduleSpec>, nextAt: number): Schedule & { readonly nextAt: number } {
  return {
    number: 1,
    appNumber: 7,
    name: "a",
    source: "app",
    spec: { ...SPEC, ...spec },
    isPaused: false,
    nextAt,
    fireAt: nextAt,
    createdAt: NOON,
    updatedAt: NOON,
  };
}

/** The times as minutes after noon. */
const minutes = (times: readonly number[]): number[] => times.map((at) => (at - NOON) / MINUTE_MS);

test("a schedule that is due fires for its time, and moves on", () => {
  const due = dueTimes(scheduleOf({}, NOON), NOON + 30);
  expect(due).toEqual({ times: [NOON], nextAt: NOON + MINUTE_MS, fireAt: NOON + MINUTE_MS });
  expect(nextTimes(scheduleOf({}, NOON), 3)).toEqual([NOON, NOON + MINUTE_MS, NOON + 2 * MINUTE_MS]);
  expect(nextTimes({ spec: SPEC, nextAt: null }, 3)).toEqual([]);
});

describe("times that were missed", () => {
  const after = (spec: Partial<ScheduleSpec>, late: number) => {
    const due = dueTimes(scheduleOf(spec, NOON), NOON + late * MINUTE_MS + 500);
    return { times: minutes(due.times), next: minutes([due.nextAt!])[0] };
  };

  verifies("schedules.catch-up", "those of the last minutes still fire, the others as catch_up says", () => {
    expect(after({}, 3)).toEqual({ times: [0, 1, 2, 3], next: 4 });
    expect(after({}, 60)).toEqual({ times: [56, 57, 58, 59, 60], next: 61 });
    const hourly = { cron: "0 * * * *" };
    expect(after(hourly, 150)).toEqual({ times: [], next: 180 });
    expect(after({ ...hourly, catchUp: "last" }, 150)).toEqual({ times: [120], next: 180 });
    expect(after({ ...hourly, catchUp: "all" }, 150)).toEqual({ times: [0, 60, 120], next: 180 });
    expect(after({ ...hourly, catchUp: "last" }, 121)).toEqual({ times: [120], next: 180 });
  });

  verifies("schedules.catch-up", "after a long time the last hundred are made up for", () => {
    const { times, next } = after({ catchUp: "all" }, 60 * 24 * 30);
    expect([times.length, times[0], times.at(-1), next]).toEqual([100, 43_101, 43_200, 43_201]);
  });
});

describe("jitter", () => {
  const spec: ScheduleSpec = { ...SPEC, cron: "*/10 * * * *", jitterSeconds: 3_600 };
  const fires = Array.from({ length: 50 }, (_, i) => {
    const at = NOON + i * 10 * MINUTE_MS;
    return { at, ...timeAfter(spec, { appNumber: 7, name: "a" }, at - 1) };
  });

  verifies("schedules.jitter", "it fires later, but before the next time, and alike everywhere", () => {
    for (const { at, nextAt, fireAt } of fires) {
      expect(nextAt).toBe(at);
      expect(fireAt! - at).toBeGreaterThanOrEqual(0);
      expect(fireAt! - at).toBeLessThan(10 * MINUTE_MS);
    }
    const delays = new Set(fires.map(({ at, fireAt }) => fireAt! - at));
    expect(delays.size).toBeGreaterThan(40);
    const others = timeAfter(spec, { appNumber: 8, name: "a" }, NOON - 1);
    expect(others.fireAt).not.toBe(fires[0]!.fireAt);
    expect(timeAfter(spec, { appNumber: 7, name: "a" }, NOON - 1)).toEqual({
      nextAt: NOON,
      fireAt: fires[0]!.fireAt,
    });
  });

  test("a time whose jitter is not over waits for it, and those before it fire", () => {
    const { at, fireAt } = fires[2]!;
    const due = dueTimes({ ...scheduleOf(spec, NOON), spec }, fireAt! - 1);
    expect(due).toEqual({
      times: fires
        .slice(0, 2)
        .map((one) => one.at)
        .filter((_, i) => fireAt! - fires[i]!.fireAt! <= 5 * MINUTE_MS),
      nextAt: at,
      fireAt,
    });
    expect(dueTimes({ ...scheduleOf(spec, at), spec }, fireAt!).times).toEqual([at]);
  });

  verifies(
    "schedules.catch-up",
    "a time is missed 5 minutes after it should have fired, whatever the jitter",
    () => {
      const late = (catchUp: ScheduleSpec["catchUp"], minute: number) =>
        minutes(dueTimes(scheduleOf({ ...spec, catchUp }, NOON), NOON + minute * MINUTE_MS).times);
      expect(late("none", 59.9).every((minute) => minute >= 40)).toBe(true);
      // The time of 12:50 is still to fire then: nothing is made up for before it.
      const { fireAt, at } = fires.findLast((one) => one.fireAt! - one.at > 6 * MINUTE_MS)!;
      const before = dueTimes(scheduleOf({ ...spec, catchUp: "last" }, NOON), fireAt! - 1);
      expect(before.nextAt).toBe(at);
      expect(
        before.times.every((one) => fireAt! - fires.find((of) => of.at === one)!.fireAt! <= 5 * MINUTE_MS),
      ).toBe(true);
    },
  );

  test("a time without another after it fires within its jitter", () => {
    const yearly = { ...spec, cron: "0 0 29 2 *", jitterSeconds: 60 };
    const { nextAt, fireAt } = timeAfter(yearly, { appNumber: 7, name: "a" }, NOON);
    expect(fireAt! - nextAt!).toBeLessThan(MINUTE_MS);
  });
});

test("the schedules of a configuration are planned for the time at which it is taken into use", () => {
  const [planned] = planSchedules([{ name: "a", ...SPEC }], 7, NOON);
  expect(planned).toEqual({ name: "a", spec: SPEC, nextAt: NOON + MINUTE_MS, fireAt: NOON + MINUTE_MS });
});
