import { section } from "./row.ts";

/** Runs that start at times. */
export const SCHEDULES = {
  ...section("docs/schedules.md: Schedules of an app", {
    "schedules.config": "`[[schedules]]` is checked at deploy, and each fault names its key.",
    "schedules.function":
      "A deploy fails if a schedule calls a function that `main.py` lacks, or with a wrong input.",
    "schedules.deploy":
      "A deploy replaces the schedules of the one before by name; those that are paused stay so.",
    "schedules.run": "A schedule starts an async run, whose record says which schedule and for which time.",
    "schedules.deleted": "The schedules of an app go with it.",
  }),
  ...section("docs/schedules.md: When it fires", {
    "schedules.once": "A schedule fires once for each time, also with several nodes and restarts.",
    "schedules.gap": "A time that daylight saving skips fires once, when the clocks are set.",
    "schedules.twice": "A time that exists twice fires once.",
    "schedules.hourly": "A schedule of every hour follows the time that passes.",
    "schedules.steps": "A clock that is set back fires nothing again.",
    "schedules.jitter":
      "`jitter` delays each firing by the same on every node, and never past the next time.",
    "schedules.many": "10,000 schedules fire once each through daylight saving, while nodes are killed.",
  }),
  ...section("docs/schedules.md: Missed times", {
    "schedules.catch-up": "`catch_up` says which times are made up for that no service was there for.",
  }),
  ...section("docs/schedules.md: Overlap", {
    "schedules.skip": "With `skip`, a time is skipped while a run of the schedule is unfinished.",
    "schedules.queue": "With `queue`, runs of a schedule start one after the other.",
    "schedules.cancel": "With `cancel`, the new run takes the place of the unfinished one.",
  }),
  ...section("docs/schedules.md: Managing schedules", {
    "schedules.api": "Schedules can be listed, created, changed, paused, resumed, run and deleted.",
    "schedules.audit": "Each change of a schedule is in the audit log.",
    "schedules.cli": "`millrace schedules` does what the API does.",
    "schedules.page":
      "The app's page in the dashboard shows its schedules, and can pause, resume and run them.",
  }),
};
