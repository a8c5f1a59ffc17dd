import * as z from "zod/mini";
import { RUN_STATES } from "../model/run.ts";
import { CATCH_UPS, OVERLAPS, SCHEDULE_SOURCES } from "../model/schedule.ts";
import { pagesOf, TIMESTAMP } from "./common.ts";

/** A time for which a schedule has fired. */
const FIRING = z.object({
  /** The time that it stands for, or at which it was asked for. */
  time: TIMESTAMP,
  /** Whether somebody asked for it. */
  manual: z.boolean(),
  /** `waiting`: for an earlier run of the schedule to end; `skipped`: there was no run. */
  status: z.enum(["started", "waiting", "skipped"]),
  runId: z.nullable(z.uuid()),
  /** Null without a run, and once its record is removed. */
  runStatus: z.nullable(z.enum(RUN_STATES)),
});
export type FiringRecord = z.infer<typeof FIRING>;

/** A schedule of an app. */
const SCHEDULE = z.object({
  name: z.string(),
  /** `app`: it is part of the app's configuration. */
  source: z.enum(SCHEDULE_SOURCES),
  cron: z.string(),
  timezone: z.string(),
  function: z.string(),
  input: z.record(z.string(), z.unknown()),
  overlap: z.enum(OVERLAPS),
  catchUp: z.enum(CATCH_UPS),
  jitterSeconds: z.number(),
  paused: z.boolean(),
  /** None while it is paused. */
  nextTimes: z.array(TIMESTAMP),
  /** The last one first. */
  lastRuns: z.array(FIRING),
  createdAt: TIMESTAMP,
  updatedAt: TIMESTAMP,
});
export type ScheduleRecord = z.infer<typeof SCHEDULE>;

/** A page of schedules, by name. */
export const SCHEDULES = pagesOf(SCHEDULE);
export const ONE_SCHEDULE = z.object({ item: SCHEDULE });
export const REMOVED_SCHEDULE = z.object({ name: z.string() });
