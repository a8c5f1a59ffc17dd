import { z } from "zod";
import { AppError } from "../model/errors.ts";
import { RUN_ID } from "../model/names.ts";
import { RUN_STATES } from "../model/run.ts";
import { runRecord } from "../model/run-record.ts";
import type { Store } from "../store/store.ts";
import { findApp } from "./api/find-app.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";
import { APP_PATH, NEXT_TOKEN, RUN, pageSize } from "./api/schemas.ts";

const TAG = "Runs";
const PATH = "/v2/projects/{project_id}/apps/{app_id}/runs";

const LIST = z.object({
  asyncOnly: z.stringbool().optional(),
  status: z.enum(RUN_STATES).optional(),
  pageSize: pageSize(50, 1000),
  nextToken: NEXT_TOKEN.optional(),
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
      response: z.object({ items: z.array(RUN), nextToken: NEXT_TOKEN }),
      errors: ["app_not_found"],
      handle: async ({ params, query }) => {
        const app = await findApp(store, params);
        const { asyncOnly = false, status: state, pageSize: limit, nextToken = "" } = query;
        const before = nextToken === "" ? undefined : readToken(nextToken);
        const found = await store.runs.list({
          appNumber: app.number,
          limit: limit + 1,
          asyncOnly,
          ...(state && { state }),
          ...(before && { before }),
        });
        const page = found.slice(0, limit);
        const last = found.length > limit ? page.at(-1)?.id : undefined;
        return {
          items: page.map((run) => runRecord(run, app)),
          nextToken: last === undefined ? "" : Buffer.from(last).toString("base64url"),
        };
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

function readToken(token: string): string {
  const id = Buffer.from(token, "base64url").toString();
  if (!RUN_ID.test(id)) throw new AppError("bad_request", { message: "nextToken is none of this list's." });
  return id;
}
