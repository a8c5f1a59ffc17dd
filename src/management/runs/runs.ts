import { z } from "zod";
import type { App } from "../../model/app.ts";
import { AppError } from "../../model/errors.ts";
import { idTime, uuidBytes } from "../../kit/ids.ts";
import { RUN_STATES } from "../../model/run.ts";
import { MAX_TAG_CHARS } from "../../model/terms.ts";
import { timestamp } from "../../shapes/common.ts";
import { buildOf, ONE_RUN, runRecord, RUNS } from "../../shapes/runs.ts";
import { isLongPage, type RunFilter } from "../../store/runs/run-pages.ts";
import { findApp, ID_TOKEN, pageSize, TIME, tokenOf } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("Runs");
const PROJECT = "/v2/projects/{project_id}/runs";
const PATH = "/v2/projects/{project_id}/apps/{app_id}/runs";

const LIST = z.object({
  asyncOnly: z.stringbool().optional(),
  mode: z.enum(["sync", "async"]).optional(),
  status: z.enum(RUN_STATES).optional(),
  functionName: z.string().max(200).optional(),
  /** The one run with that id, whatever the other filters are. */
  run_id: z.uuid().toLowerCase().optional(),
  from: TIME.optional(),
  to: TIME.optional(),
  pageSize: pageSize(50, 1000),
  nextToken: ID_TOKEN.optional(),
});
const APP_LIST = LIST.extend({ tag: z.string().min(1).max(MAX_TAG_CHARS).optional() });
const PROJECT_LIST = LIST.extend({
  app_id: z.string().max(200).optional(),
  // Over many apps a page is merged from all of them.
  pageSize: pageSize(50, 200),
});

export function runOperations({ store, lookup }: Pick<ManagementParts, "store" | "lookup">): Operation[] {
  const listOf = async (app: App, query: z.output<typeof APP_LIST>) => {
    const { runs, next } = await store.runs.pageOfApp({ appNumber: app.number, ...filterOf(query) });
    return { items: runs.map((run) => runRecord(run, app)), ...endOf(next) };
  };
  const oneOf = async (app: App | null, id: string) => {
    const known = app && (await lookup.record({ appNumber: app.number, id }));
    return { items: known ? [runRecord(known.run, app, known.details)] : [], nextToken: "" };
  };
  const listOrOne = async (app: App, query: z.output<typeof APP_LIST>) =>
    await (query.run_id === undefined ? listOf(app, query) : oneOf(app, query.run_id));

  return [
    operation("GET", PROJECT, {
      id: "listProjectRuns",
      summary: "List the runs of all apps in a project, newest first",
      access: "run",
      query: PROJECT_LIST,
      isHeavy: ({ app_id, ...query }) => !app_id || isLongPage(filterOf(query)),
      response: RUNS,
      errors: ["app_not_found"],
      handle: async ({ params, projectId, query }) => {
        const { app_id, run_id } = query;
        if (app_id) return await listOrOne(await findApp(store, { ...params, app_id }), query);
        if (run_id !== undefined) {
          const number = lookup.liveAppOf(run_id) ?? (await store.runs.appOf({ projectId, id: run_id }));
          const app = (await store.apps.list(projectId)).find((each) => each.number === number);
          return await oneOf(app ?? null, run_id);
        }
        const { runs, next } = await store.runs.pageOfProject({ projectId, ...filterOf(query) });
        const apps = new Map((await store.apps.list(projectId)).map((app) => [app.number, app]));
        const items = runs.flatMap((run) => {
          const app = apps.get(run.appNumber);
          // Deleted a moment ago.
          return app ? runRecord(run, app) : [];
        });
        return { items, ...endOf(next) };
      },
    }),
    operation("GET", PATH, {
      id: "listRuns",
      summary: "List an app's runs, newest first",
      access: "run",
      query: APP_LIST,
      isHeavy: (query) => isLongPage(filterOf(query)),
      response: RUNS,
      errors: ["app_not_found"],
      handle: async ({ params, query }) => await listOrOne(await findApp(store, params), query),
    }),
    operation("GET", `${PATH}/{run_id}`, {
      id: "getRun",
      summary: "Get a run",
      access: "run",
      response: ONE_RUN,
      errors: ["app_not_found", "run_not_found"],
      handle: async ({ params }) => {
        const app = await findApp(store, params);
        const known = await lookup.record({ appNumber: app.number, id: params.run_id.toLowerCase() });
        if (!known) throw new AppError("run_not_found");
        return { item: runRecord(known.run, app, known.details), buildId: buildOf(known.run) };
      },
    }),
  ];
}

function endOf(next: string | null): { nextToken: string; completeSince?: string } {
  if (next === null) return { nextToken: "" };
  return { nextToken: tokenOf(next), completeSince: timestamp(idTime(uuidBytes(next))) };
}

function filterOf(query: z.output<typeof APP_LIST>): RunFilter {
  const { asyncOnly, mode, status: state, functionName, from: fromMs, to: toMs, nextToken: before } = query;
  return {
    limit: query.pageSize,
    asyncOnly: asyncOnly === true || mode === "async",
    syncOnly: mode === "sync",
    ...(state && { state }),
    ...(functionName && { functionName }),
    ...(query.tag && { tag: query.tag }),
    ...(fromMs !== undefined && { fromMs }),
    ...(toMs !== undefined && { toMs }),
    ...(before && { before }),
  };
}
