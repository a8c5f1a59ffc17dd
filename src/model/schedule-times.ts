import { createHash } from "node:crypto";
import { lastTimes, nextTime } from "../kit/cron.ts";
import type { Schedule, ScheduleConfig, ScheduleSpec } from "./schedule.ts";

/** A time that has passed for longer was missed. Services that are upgraded, or take over from a dead one, are faster. */
const LATE_MS = 5 * 60_000;

/** How many times of a schedule are made up for at once, the last ones. */
const MAX_TIMES = 100;

/** The next time that a schedule stands for, and when it fires for it. */
type Next = Pick<Schedule, "nextAt" | "fireAt">;

/** What tells a schedule from others. */
type Named = Pick<Schedule, "appNumber" | "name">;

const NEVER: Next = { nextAt: null, fireAt: null };

/** The first time of a schedule after that moment. */
export function timeAfter(spec: ScheduleSpec, of: Named, afterMs: number): Next {
  const nextAt = nextTime(spec, afterMs);
  return nextAt === null ? NEVER : { nextAt, fireAt: fireTime(spec, of, nextAt) };
}

/** The schedules of a configuration, for the time at which it is taken into use. */
export function planSchedules(schedules: readonly ScheduleConfig[], appNumber: number, now: number) {
  return schedules.map(({ name, ...spec }) => ({
    name,
    spec,
    ...timeAfter(spec, { appNumber, name }, now),
  }));
}

/** When a schedule fires for a time: the same on every node, and before the next time. */
function fireTime(spec: ScheduleSpec, of: Named, at: number): number {
  if (spec.jitterSeconds === 0) return at;
  const following = nextTime(spec, at) ?? Number.POSITIVE_INFINITY;
  const spanMs = Math.min(spec.jitterSeconds * 1_000, following - at);
  const hash = createHash("sha256").update(`${of.appNumber} ${of.name} ${at}`).digest();
  return at + Math.floor((hash.readUInt32BE(0) / 2 ** 32) * spanMs);
}

/** The times for which a due schedule fires now, the first one first, and what follows them. */
type DueTimes = Next & { readonly times: readonly number[] };

/** What a schedule does whose time has come. Of the times that were missed, `catch_up` says which are made up for. */
export function dueTimes(schedule: Schedule & { readonly nextAt: number }, now: number): DueTimes {
  const { spec, nextAt } = schedule;
  let passed: readonly number[] = [nextAt];
  let following = nextTime(spec, nextAt);
  if (following !== null && following <= now) {
    passed = lastTimes(spec, nextAt, now, MAX_TIMES);
    following = nextTime(spec, now);
  }
  const last = passed.at(-1) ?? nextAt;
  const fireAt = fireTime(spec, schedule, last);
  if (fireAt > now) {
    // The jitter of the last one is not over; those before it were due.
    return { times: madeUp(schedule, passed, now).filter((at) => at !== last), nextAt: last, fireAt };
  }
  const times = madeUp(schedule, passed, now);
  if (following === null) return { times, ...NEVER };
  return { times, nextAt: following, fireAt: fireTime(spec, schedule, following) };
}

/** Of all times that have passed, those that fire. */
function madeUp(schedule: Schedule, times: readonly number[], now: number): number[] {
  const { spec } = schedule;
  const isLate = (at: number): boolean => now - fireTime(spec, schedule, at) > LATE_MS;
  const isMadeUp = (i: number): boolean =>
    spec.catchUp === "all" || (spec.catchUp === "last" && i === times.length - 1);
  return times.filter((at, i) => isMadeUp(i) || !isLate(at));
}

/** The next times of a schedule that is not paused, the earliest first. */
export function nextTimes({ spec, nextAt }: Pick<Schedule, "spec" | "nextAt">, count: number): number[] {
  const times: number[] = [];
  for (let at = nextAt; at !== null && times.length < count; at = nextTime(spec, at)) times.push(at);
  return times;
}
