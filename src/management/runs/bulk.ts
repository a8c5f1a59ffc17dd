import { z } from "zod";
import { RUN_AHEAD_MS, UuidSource } from "../../kit/ids.ts";
import { BULK_ACTIONS, type BulkFilter, fits } from "../../model/bulk-job.ts";
import { AppError } from "../../model/errors.ts";
import { RUN_STATES } from "../../model/run.ts";
import { MAX_TAG_CHARS } from "../../model/terms.ts";
import { requireRole } from "../../identity/principal.ts";
import { countMatching } from "../../runs/bulk/bulk-filter.ts";
import { BULK_COUNT, BULK_JOBS, bulkJobRecord, ONE_BULK_JOB } from "../../shapes/bulk-jobs.ts";
import { badField, findApp, TIME } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("Runs");
const PATH = "/v2/projects/{project_id}/apps/{app_id}/runs/bulk";
const JOB = `${PATH}/{job_id}` as const;
const LISTED = 50;

/** Strict, and without empty texts: a condition that was meant but not given must not become none. */
const FILTER = z.strictObject({
  status: z.enum(RUN_STATES).optional(),
  mode: z.enum(["sync", "async"]).optional(),
  functionName: z.string().min(1).max(200).optional(),
  tag: z.string().min(1).max(MAX_TAG_CHARS).optional(),
  from: TIME.optional(),
  to: TIME.optional(),
  all: z.literal(true).optional(),
});
const ACTION = z.strictObject({ action: z.enum(BULK_ACTIONS), filter: FILTER });
type ActionBody = z.output<typeof ACTION>;

type BulkParts = Pick<ManagementParts, "store" | "steadyClock" | "bulkWorker">;

/** Retrying, cancelling and deleting runs of an app by conditions, in the background. */
export function bulkOperations({ store, steadyClock: clock, bulkWorker }: BulkParts): Operation[] {
  const ids = new UuidSource(RUN_AHEAD_MS);
  const found = async (params: { project_id: string; app_id: string; job_id: string }) => {
    const app = await findApp(store, params);
    const job = await store.bulkJobs.find({ appNumber: app.number, id: params.job_id.toLowerCase() });
    if (!job) throw new AppError("bulk_job_not_found");
    return { app, job };
  };

  return [
    operation("GET", PATH, {
      id: "listBulkJobs",
      summary: "List the last actions on many runs of an app, newest first",
      access: "run",
      response: BULK_JOBS,
      errors: ["app_not_found"],
      handle: async ({ params }) => {
        const { number: appNumber } = await findApp(store, params);
        return { items: (await store.bulkJobs.list({ appNumber, limit: LISTED })).map(bulkJobRecord) };
      },
    }),
    operation("POST", PATH, {
      id: "startBulkJob",
      summary: "Retry, cancel or delete all runs of an app that meet conditions, in the background",
      access: "run",
      body: ACTION,
      isHeavy: () => true,
      response: ONE_BULK_JOB,
      errors: ["app_not_found", "too_many_requests"],
      handle: async (call) => {
        const { number: appNumber } = await findApp(store, call.params);
        const { action } = call.body;
        // What is deleted is gone for all.
        if (action === "delete") requireRole(call.principal, call.params.project_id, "deploy");
        const now = clock.now();
        const filter = filterIn(call.body, now);
        const { count, isExact } = await countMatching(store, appNumber, { action, filter });
        const id = ids.next(now);
        const job = { appNumber, id, action, filter, total: isExact ? count : null, now };
        if (!(await store.bulkJobs.insert(job))) {
          const message =
            "Too many such actions on the app's runs are in progress; wait until one has ended.";
          throw new AppError("too_many_requests", { message, headers: { "retry-after": "10" } });
        }
        bulkWorker.wake();
        const item = bulkJobRecord((await found({ ...call.params, job_id: id })).job);
        await call.record(`runs.${action}`, call.params.app_id, {
          after: { job: id, action, filter: item.filter },
        });
        return { item };
      },
    }),
    operation("POST", `${PATH}/count`, {
      id: "countBulkRuns",
      summary: "Count the runs that such an action would find, without changing any",
      access: "run",
      body: ACTION,
      isHeavy: () => true,
      response: BULK_COUNT,
      errors: ["app_not_found"],
      handle: async ({ params, body }) => {
        const { number: appNumber } = await findApp(store, params);
        const wanted = { action: body.action, filter: filterIn(body, clock.now()) };
        const { count, isExact } = await countMatching(store, appNumber, wanted);
        return { count, exact: isExact };
      },
    }),
    operation("GET", JOB, {
      id: "getBulkJob",
      summary: "Get how far an action on many runs is",
      access: "run",
      response: ONE_BULK_JOB,
      errors: ["app_not_found", "bulk_job_not_found"],
      handle: async ({ params }) => ({ item: bulkJobRecord((await found(params)).job) }),
    }),
    operation("POST", `${JOB}/cancel`, {
      id: "cancelBulkJob",
      summary: "Stop an action on many runs; what it has done stays",
      access: "run",
      response: ONE_BULK_JOB,
      errors: ["app_not_found", "bulk_job_not_found"],
      handle: async (call) => {
        const { app, job } = await found(call.params);
        const key = { appNumber: app.number, id: job.id };
        if (await store.bulkJobs.cancel({ ...key, now: clock.now() }))
          await call.record("runs.stop-bulk", call.params.app_id, { after: { job: job.id } });
        return { item: bulkJobRecord((await found(call.params)).job) };
      },
    }),
  ];
}

/** The conditions, of which there must be one, or `all`; and that runs of later calls are none of it. */
function filterIn({ action, filter }: ActionBody, now: number): BulkFilter {
  const { all, from: fromMs, to, ...others } = filter;
  const given = Object.entries({ ...others, fromMs, toMs: to }).filter(([, value]) => value !== undefined);
  if (given.length === 0 && !all)
    throw badField("filter", 'needs a condition, or {"all": true} for every run that the action fits');
  if (given.length > 0 && all) throw badField("filter.all", "is for a filter without other conditions");
  const { status } = others;
  if (status && !fits(action, status))
    throw badField("filter.status", `to ${action} runs with the status ${status} is not possible`);
  const toMs = Math.min(to ?? Number.POSITIVE_INFINITY, now + 1);
  return { ...(Object.fromEntries(given) as BulkFilter), toMs };
}
