/** What becomes of a time while a run of the schedule is unfinished: it is skipped, it waits, or that run is cancelled. */
export const OVERLAPS = ["skip", "queue", "cancel"] as const;
type Overlap = (typeof OVERLAPS)[number];

/** Which of the times are made up for that passed while no service was there. */
export const CATCH_UPS = ["none", "last", "all"] as const;
type CatchUp = (typeof CATCH_UPS)[number];

/** Where a schedule comes from: the configuration of the deployed version, or a call of the management API. */
export const SCHEDULE_SOURCES = ["app", "api"] as const;
type ScheduleSource = (typeof SCHEDULE_SOURCES)[number];

/** When a schedule starts what. */
export type ScheduleSpec = {
  /** 5 or 6 fields. */
  readonly cron: string;
  readonly timezone: string;
  readonly functionName: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly overlap: Overlap;
  readonly catchUp: CatchUp;
  readonly jitterSeconds: number;
};

/** A schedule of an app's configuration. */
export type ScheduleConfig = ScheduleSpec & {
  /** Unique in the app. */
  readonly name: string;
};

/** A stored schedule. Times are epoch milliseconds. */
export type Schedule = {
  /** Unique over all apps, and never given twice. */
  readonly number: number;
  readonly appNumber: number;
  readonly name: string;
  readonly source: ScheduleSource;
  readonly spec: ScheduleSpec;
  readonly isPaused: boolean;
  /** The next time that it stands for, and when it fires for it; null while paused, and if there is none. */
  readonly nextAt: number | null;
  readonly fireAt: number | null;
  readonly createdAt: number;
  readonly updatedAt: number;
};

/**
 * The states of a firing. `waiting`: for an earlier run of the schedule to end; `started`: it has a run; `superseded`: its
 * run is to be cancelled; `ended`: its run was seen to have ended; `skipped`: it never had a run.
 */
export const FIRING_STATES = ["waiting", "started", "superseded", "ended", "skipped"] as const;
export type FiringState = (typeof FIRING_STATES)[number];

/** Every legal change of a stored state. A firing is first stored as waiting, started or skipped. */
export const FIRING_MOVES = {
  /** The run before it has ended. */
  start: { from: ["waiting"], to: "started" },
  /** A later one takes its place. */
  supersede: { from: ["started"], to: "superseded" },
  /** Its run was seen to have ended. */
  end: { from: ["started", "superseded"], to: "ended" },
  /** There is no version that could run it. */
  drop: { from: ["waiting"], to: "skipped" },
} as const satisfies Record<string, { readonly from: readonly FiringState[]; readonly to: FiringState }>;

/** Why a run exists that a schedule started. */
export type RunSchedule = {
  readonly name: string;
  /** The time that it stands for, in epoch milliseconds. */
  readonly at: number;
};

/** The name of a schedule: it is part of addresses. */
export const SCHEDULE_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

/** How many schedules an app may have in its configuration, and in all. */
export const MAX_CONFIG_SCHEDULES = 100;
export const MAX_SCHEDULES = 1_000;

/** The largest input of a schedule, as JSON. */
export const MAX_SCHEDULE_INPUT_BYTES = 64 * 1024;

/** The longest jitter. */
export const MAX_JITTER = "1h";
