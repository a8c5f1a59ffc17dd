import { cronFault } from "../../kit/cron.ts";
import { isTimezone } from "../../kit/time-zones.ts";
import { FUNCTION_NAME } from "../../model/names.ts";
import {
  CATCH_UPS,
  MAX_JITTER,
  MAX_SCHEDULE_INPUT_BYTES,
  OVERLAPS,
  SCHEDULE_NAME,
  type ScheduleConfig,
  type ScheduleSpec,
} from "../../model/schedule.ts";
import { type AppKeys, duration, key, matching, oneOf, optional, type Reader } from "../readers.ts";
import { isTable } from "../toml.ts";

const name = matching(
  "a name of at most 128 letters, digits, hyphens, underscores and dots that begins with a letter or digit",
  (text) => SCHEDULE_NAME.test(text),
);

const cron: Reader<string> = {
  expects: 'a cron expression of 5 or 6 fields that some date fits, such as "0 3 * * *"',
  read: (raw) => (typeof raw === "string" && cronFault(raw) === null ? raw.trim() : undefined),
};

/** Takes a table of what JSON has too. */
const input: Reader<Readonly<Record<string, unknown>>> = {
  expects: `a table of values that JSON has too, of at most ${MAX_SCHEDULE_INPUT_BYTES} bytes`,
  read: (raw) => {
    if (raw === null) return {};
    if (!isTable(raw)) return undefined;
    const value = asJson(raw);
    if (value === undefined || Buffer.byteLength(JSON.stringify(value)) > MAX_SCHEDULE_INPUT_BYTES)
      return undefined;
    return value as Readonly<Record<string, unknown>>;
  },
};

/** The value as JSON has it, dates as text; undefined if JSON has nothing like it. The parser bounds the depth. */
function asJson(value: unknown): unknown {
  if (typeof value === "number") return Number.isFinite(value) ? value : undefined;
  if (typeof value === "string" || typeof value === "boolean" || value === null) return value;
  if (value instanceof Date) return JSON.parse(JSON.stringify(value)) as unknown;
  if (Array.isArray(value)) {
    const items = value.map(asJson);
    return items.includes(undefined) ? undefined : items;
  }
  if (!isTable(value)) return undefined;
  const members = Object.entries(value).map(([member, of]) => [member, asJson(of)] as const);
  return members.some(([, of]) => of === undefined) ? undefined : Object.fromEntries(members);
}

const functionName = matching(
  "the name of a function: a letter, then up to 127 letters, digits and underscores",
  (text) => FUNCTION_NAME.test(text),
);

const timezone = matching("the name of a time zone, such as Europe/Berlin", isTimezone);

/** The keys that say when what is started. */
export const SCHEDULE_SPEC_KEYS: AppKeys<ScheduleSpec> = {
  cron: key("schedules.cron", null, cron).describe(
    "When it fires: minute, hour, day of the month, month and day of the week, with seconds before them if there are 6. Required.",
  ),
  timezone: key("schedules.timezone", null, timezone, "UTC").describe(
    "The time zone of `cron`, with its daylight saving time.",
  ),
  functionName: key("schedules.function", null, functionName, "run").describe("The function that it calls."),
  input: key("schedules.input", null, input).describe("The arguments of the call. Default: none."),
  overlap: key("schedules.overlap", null, oneOf(OVERLAPS), "skip").describe(
    "What becomes of a time while a run of the schedule is unfinished: it is skipped, it waits for the end of that run, or that run is cancelled.",
  ),
  catchUp: key("schedules.catch_up", null, oneOf(CATCH_UPS), "none").describe(
    "Which times are made up for that passed while no service was running: none, the last one, or all, up to 100.",
  ),
  jitterSeconds: key("schedules.jitter", null, duration("0s", MAX_JITTER), "0s").describe(
    "It fires up to that much later, but before its next time.",
  ),
};

/** The keys of each `[[schedules]]`. */
export const SCHEDULE_KEYS: AppKeys<Omit<ScheduleConfig, "name"> & { readonly name: string | null }> = {
  name: key("schedules.name", null, optional(name)).describe(
    "Its name, which no other schedule of the app has. Default: the name of the function.",
  ),
  ...SCHEDULE_SPEC_KEYS,
};
