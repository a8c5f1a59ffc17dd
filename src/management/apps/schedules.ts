import { createHash } from "node:crypto";
import { z } from "zod";
import type { Catalog } from "../../apps/catalog.ts";
import { SCHEDULE_KEYS, SCHEDULE_SPEC_KEYS } from "../../config/keys/schedules.ts";
import type { Reader } from "../../config/readers.ts";
import type { App } from "../../model/app.ts";
import { misfits } from "../../model/arguments.ts";
import { AppError, noSuchFunction } from "../../model/errors.ts";
import { SETUP_FUNCTION } from "../../model/names.ts";
import { CATCH_UPS, MAX_SCHEDULES, OVERLAPS, SCHEDULE_NAME } from "../../model/schedule.ts";
import type { Schedule, ScheduleSpec } from "../../model/schedule.ts";
import { nextTimes, timeAfter } from "../../model/schedule-times.ts";
import { respondMisfit } from "../../runs/response.ts";
import { timestamp } from "../../shapes/common.ts";
import { FILE_RUN } from "../../shapes/runs.ts";
import { ONE_SCHEDULE, REMOVED_SCHEDULE, SCHEDULES } from "../../shapes/schedules.ts";
import type { FiringRecord, ScheduleRecord } from "../../shapes/schedules.ts";
import type { Firing } from "../../store/schedules/firings.ts";
import type { Store } from "../../store/store.ts";
import { badField, findApp, NEXT_TOKEN, pageSize, tokenOf } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("Schedules");
const PATH = "/v2/projects/{project_id}/apps/{app_id}/schedules";
const SCHEDULE_URL = `${PATH}/{schedule_name}` as const;

/** How many are shown of each schedule. */
const SHOWN_TIMES = 5;
const SHOWN_RUNS = 5;
const MAX_BODY_BYTES = 128 * 1024;
/** An input may have as many values as a configuration file. */
const MAX_VALUES = 4_000;
/** Of a change that others keep overtaking. */
const TRIES = 5;

const KEYS = SCHEDULE_SPEC_KEYS;
const SPEC = z.object({
  cron: fitting(z.string(), KEYS.cron.reader).transform((text) => text.trim()),
  timezone: fitting(z.string(), KEYS.timezone.reader),
  function: fitting(z.string(), KEYS.functionName.reader),
  input: fitting(z.record(z.string(), z.unknown()), KEYS.input.reader),
  overlap: z.enum(OVERLAPS),
  catchUp: z.enum(CATCH_UPS),
  jitter: fitting(z.union([z.number(), z.string().max(20)]), KEYS.jitterSeconds.reader).transform(
    (text) => KEYS.jitterSeconds.reader.read(text) ?? 0,
  ),
});
const CHANGE = SPEC.partial().extend({ paused: z.boolean().optional() });
const NEW = SPEC.partial().extend({
  cron: SPEC.shape.cron,
  name: fitting(z.string(), SCHEDULE_KEYS.name.reader).optional(),
  paused: z.boolean().optional(),
});

/** The name of the previous page's last schedule, or empty. */
const NAME_TOKEN = NEXT_TOKEN.transform((token) => Buffer.from(token, "base64url").toString()).refine(
  (name) => name === "" || SCHEDULE_NAME.test(name),
  "does not belong to this list",
);

const USUAL = {
  timezone: "UTC",
  function: "run",
  input: {},
  overlap: "skip",
  catchUp: "none",
  jitter: 0,
} as const;

/** What a key of the configuration takes, in the same words. */
function fitting<Schema extends z.ZodType>(schema: Schema, { read, expects }: Reader<unknown>): Schema {
  return schema.refine((value) => read(value) !== undefined, `must be ${expects}`);
}

/** The schedules of an app: those of its configuration, and others that are made here. */
export function scheduleOperations({ store, catalog, scheduler, clock }: ManagementParts): Operation[] {
  const found = async (params: { project_id: string; app_id: string; schedule_name: string }) => {
    const app = await findApp(store, params);
    const schedule = await store.schedules.find({ appNumber: app.number, name: params.schedule_name });
    if (!schedule) throw new AppError("schedule_not_found");
    return { app, schedule };
  };
  const shown = async (schedule: Schedule) => ({ item: (await recordsOf(store, [schedule]))[0]! });

  return [
    operation("GET", PATH, {
      id: "listSchedules",
      summary: "List an app's schedules by name, with their next times and last runs",
      access: "run",
      query: z.object({ pageSize: pageSize(50, 100), nextToken: NAME_TOKEN.optional() }),
      response: SCHEDULES,
      errors: ["app_not_found"],
      handle: async ({ params, query: { pageSize: limit, nextToken: after = "" } }) => {
        const { number: appNumber } = await findApp(store, params);
        const page = await store.schedules.list({ appNumber, after, limit: limit + 1 });
        const items = await recordsOf(store, page.slice(0, limit));
        return { items, nextToken: tokenOf(page.length > limit ? (items.at(-1)?.name ?? null) : null) };
      },
    }),
    operation("POST", PATH, {
      id: "createSchedule",
      summary: "Create a schedule",
      access: "deploy",
      body: NEW,
      maxBodyBytes: MAX_BODY_BYTES,
      maxValues: MAX_VALUES,
      response: ONE_SCHEDULE,
      errors: [
        "app_not_found",
        "build_not_found",
        "function_not_found",
        "invalid_arguments",
        "schedule_exists",
      ],
      handle: async (call) => {
        const app = await findApp(store, call.params);
        const { name: given, paused = false, ...body } = call.body;
        const spec = specOf({ ...USUAL, ...givenIn(body), cron: body.cron });
        const name = given ?? spec.functionName;
        await requireCallable(store, catalog, app, spec);
        const now = clock.now();
        const { number: appNumber } = app;
        const next = paused ? PAUSED : timeAfter(spec, { appNumber, name }, now);
        const { schedule, isFull } = await store.schedules.insert({ appNumber, name, spec, now, ...next });
        if (isFull) throw badField("name", `the app has ${MAX_SCHEDULES} schedules already`);
        if (!schedule) throw new AppError("schedule_exists");
        scheduler.wake();
        await call.record("schedule.create", targetOf(call.params.app_id, name), {
          after: { ...audited(spec), paused },
        });
        return await shown(schedule);
      },
    }),
    operation("GET", SCHEDULE_URL, {
      id: "getSchedule",
      summary: "Get a schedule, with its next times and last runs",
      access: "run",
      response: ONE_SCHEDULE,
      errors: ["app_not_found", "schedule_not_found"],
      handle: async ({ params }) => await shown((await found(params)).schedule),
    }),
    operation("PATCH", SCHEDULE_URL, {
      id: "changeSchedule",
      summary: "Pause or resume a schedule, or change one that is not part of the app's configuration",
      access: "deploy",
      body: CHANGE,
      maxBodyBytes: MAX_BODY_BYTES,
      maxValues: MAX_VALUES,
      response: ONE_SCHEDULE,
      errors: ["app_not_found", "schedule_not_found", "function_not_found", "invalid_arguments"],
      handle: async (call) => {
        const { paused, ...changes } = call.body;
        for (let i = 0; i < TRIES; i++) {
          const { app, schedule } = await found(call.params);
          const isSpec = Object.keys(givenIn(changes)).length > 0;
          if (isSpec && schedule.source === "app") throw partOfApp();
          const spec = isSpec ? specOf({ ...bodyOf(schedule.spec), ...givenIn(changes) }) : schedule.spec;
          if (isSpec) await requireCallable(store, catalog, app, spec);
          const isPaused = paused ?? schedule.isPaused;
          const now = clock.now();
          const { number, updatedAt } = schedule;
          const next = isPaused ? PAUSED : isSame(schedule, spec) ? schedule : timeAfter(spec, schedule, now);
          const { nextAt, fireAt } = next;
          const change = { number, spec, isPaused, nextAt, fireAt, updatedAt, now };
          const changed = await store.schedules.change(change);
          if (!changed) continue;
          scheduler.wake();
          const [before, after] = [schedule, changed].map((one) => ({
            ...audited(one.spec),
            paused: one.isPaused,
          }));
          await call.record("schedule.change", targetOf(call.params.app_id, schedule.name), {
            before,
            after,
          });
          return await shown(changed);
        }
        throw badField("paused", "others are changing the schedule; try again");
      },
    }),
    operation("DELETE", SCHEDULE_URL, {
      id: "deleteSchedule",
      summary: "Delete a schedule that is not part of the app's configuration; its runs go on",
      access: "deploy",
      response: REMOVED_SCHEDULE,
      errors: ["app_not_found", "schedule_not_found"],
      handle: async (call) => {
        const { schedule } = await found(call.params);
        if (schedule.source === "app") throw partOfApp();
        if (!(await store.schedules.remove(schedule.number))) throw new AppError("schedule_not_found");
        const { name, spec } = schedule;
        await call.record("schedule.delete", targetOf(call.params.app_id, name), { before: audited(spec) });
        return { name };
      },
    }),
    operation("POST", `${SCHEDULE_URL}/run`, {
      id: "runSchedule",
      summary: "Start a run of a schedule now, whatever its other runs do, even if it is paused",
      access: "run",
      response: FILE_RUN,
      errors: ["app_not_found", "schedule_not_found"],
      handle: async (call) => {
        const { schedule } = await found(call.params);
        const runId = await scheduler.fireNow(schedule);
        await call.record("schedule.run", targetOf(call.params.app_id, schedule.name), { after: { runId } });
        return { runId };
      },
    }),
  ];
}

const PAUSED = { nextAt: null, fireAt: null } as const;

function partOfApp(): AppError {
  const message =
    'The schedule is part of the app\'s configuration: change it there and deploy, or pause it with {"paused": true}.';
  return new AppError("bad_request", { message });
}

/** What the audit log has of a schedule: of its input, which may be large and secret, that it is the same or another. */
function audited({ input, ...rest }: ScheduleSpec) {
  const hash = createHash("sha256").update(JSON.stringify(input)).digest("hex");
  return { ...rest, inputHash: hash.slice(0, 16) };
}

function targetOf(appId: string, name: string): string {
  return `${appId}/${name}`;
}

type SpecBody = z.output<typeof SPEC>;

/** The members that are there. */
function givenIn(body: {
  readonly [Name in keyof SpecBody]?: SpecBody[Name] | undefined;
}): Partial<SpecBody> {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));
}

function specOf({ function: functionName, jitter: jitterSeconds, ...rest }: SpecBody): ScheduleSpec {
  const { cron, timezone, input, overlap, catchUp } = rest;
  // In the order of the configuration's keys, so that equal ones are stored alike.
  return { cron, timezone, functionName, input, overlap, catchUp, jitterSeconds };
}

function bodyOf({ functionName, jitterSeconds: jitter, ...rest }: ScheduleSpec): SpecBody {
  return { ...rest, function: functionName, jitter };
}

/** Whether a schedule that is not paused goes on firing at the same times. */
function isSame({ spec: before, isPaused }: Schedule, spec: ScheduleSpec): boolean {
  const { cron, timezone, jitterSeconds } = before;
  return (
    !isPaused && cron === spec.cron && timezone === spec.timezone && jitterSeconds === spec.jitterSeconds
  );
}

/** Throws if the app is known to lack the function, or its arguments do not fit. */
async function requireCallable(store: Store, catalog: Catalog, app: App, spec: ScheduleSpec): Promise<void> {
  const { functionName, input } = spec;
  const live = catalog.byNumber(app.number);
  const version =
    live?.version ?? (app.currentVersionId === null ? null : await store.versions.find(app.currentVersionId));
  if (!version) {
    throw new AppError("build_not_found", { message: "The app has no version yet; deploy it first." });
  }
  if (version.config.customRuntime) throw badField("function", "a server app has no functions to call");
  if (functionName === SETUP_FUNCTION) throw badField("function", "setup cannot be called");
  if (live) catalog.requireFunction(live, functionName);
  const known = live?.pool.functions?.get(functionName);
  const signature = known ?? version.functions?.find(({ name }) => name === functionName);
  if (!signature) {
    if (!live && version.functions) throw noSuchFunction(version.functions.map(({ name }) => name));
    return;
  }
  const ignoresExtra = version.config.deployment.extraParams === "ignore";
  const { details, more } = misfits(signature, Object.keys(input), ignoresExtra);
  if (details.length > 0) throw respondMisfit(details, more);
}

async function recordsOf(store: Store, schedules: readonly Schedule[]): Promise<ScheduleRecord[]> {
  const numbers = schedules.map(({ number }) => number);
  const firings = await store.firings.last({ schedules: numbers, limit: SHOWN_RUNS });
  const bySchedule = Map.groupBy(firings, ({ schedule }) => schedule);
  return schedules.map((schedule) => {
    const { name, source, isPaused, createdAt, updatedAt, spec } = schedule;
    const { functionName, ...rest } = spec;
    return {
      name,
      source,
      function: functionName,
      ...rest,
      paused: isPaused,
      nextTimes: nextTimes(schedule, SHOWN_TIMES).map(timestamp),
      lastRuns: (bySchedule.get(schedule.number) ?? []).map(firingRecord),
      createdAt: timestamp(createdAt),
      updatedAt: timestamp(updatedAt),
    };
  });
}

function firingRecord({ at, isManual, state, runId, runState }: Firing): FiringRecord {
  const status = state === "waiting" || state === "skipped" ? state : "started";
  return { time: timestamp(at), manual: isManual, status, runId, runStatus: runState };
}
