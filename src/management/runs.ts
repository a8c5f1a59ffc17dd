import { z } from "zod";
import { AppError } from "../model/errors.ts";
import { RUN_STATES } from "../model/run.ts";
import { runRecord } from "../model/run-record.ts";
import type { Store } from "../store/store.ts";
import { findApp } from "./api/find-app.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";
import { ID_TOKEN, cutPage, pagesOf } from "./api/pages.ts";
import { APP_PATH, RUN, pageSize } from "./api/schemas.ts";

const TAG = "Runs";
const PATH = "/v2/projects/{project_id}/apps/{app_id}/runs";

const LIST = z.object({
  asyncOnly: z.stringbool().optional(),
  status: z.enum(RUN_STATES).optional(),
  pageSize: pageSize(50, 1000),
  nextToken: ID_TOKEN.optional(),
});

/** An app's runs. */
export function runOperations({ store }: { readonly store: Store }): AnyOperation[] {
  return [
    operation({
      method: "GET",
      path: PATH,
      id: "listRuns",
      tag: TAG,
      summary: "An app's runs, newest first",
      access: "run",
      params: APP_PATH,
      query: LIST,
      response: pagesOf(RUN),
      errors: ["app_not_found"],
      handle: async ({ params, query }) => {
        const app = await findApp(store, params);
        const { asyncOnly = false, status: state, pageSize: limit, nextToken: before } = query;
        const found = await store.runs.list({
          appNumber: app.number,
          limit: limit + 1,
          asyncOnly,
          ...(state && { state }),
          ...(before && { before }),
        });
        const { page, nextToken } = cutPage(found, limit);
        return { items: page.map((run) => runRecord(run, app)), nextToken };
      },
    }),
    operation({
      method: "GET",
      path: `${PATH}/{run_id}`,
      id: "getRun",
      tag: TAG,
      summary: "One run",
      access: "run",
      params: APP_PATH.extend({ run_id: z.uuid() }),
      response: z.object({ item: RUN }),
      errors: ["app_not_found", "run_not_found"],
      handle: async ({ params }) => {
        const app = await findApp(store, params);
        const run = await store.runs.find({ appNumber: app.number, id: params.run_id.toLowerCase() });
        if (!run) throw new AppError("run_not_found");
        return { item: runRecord(run, app) };
      },
    }),
  ];
}
