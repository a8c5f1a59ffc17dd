import { z } from "zod";
import type { App } from "../../model/app.ts";
import { AppError } from "../../model/errors.ts";
import type { LineBatch } from "../../model/line-batch.ts";
import { countedRecords } from "../../runs/batches/counted-record.ts";
import { BATCHES, ONE_BATCH } from "../../shapes/batches.ts";
import { findApp, ID_TOKEN, pageSize, tokenOf } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("Batches");
const PATH = "/v2/projects/{project_id}/apps/{app_id}/batches";

/** The batches of an app. They are uploaded, cancelled and retried at the app's own address. */
export function batchOperations(
  parts: Pick<ManagementParts, "store" | "steadyClock" | "queueStates">,
): Operation[] {
  const { store, steadyClock } = parts;
  const shown = async (app: App, batches: readonly LineBatch[]) =>
    await countedRecords(parts, batches, app, steadyClock.now());

  return [
    operation("GET", PATH, {
      id: "listBatches",
      summary: "List an app's batches of lines, newest first",
      access: "run",
      query: z.object({ pageSize: pageSize(50, 100), nextToken: ID_TOKEN.optional() }),
      response: BATCHES,
      errors: ["app_not_found"],
      handle: async ({ params, query: { pageSize: limit, nextToken: before } }) => {
        const app = await findApp(store, params);
        const page = await store.lineBatches.list({
          appNumber: app.number,
          limit: limit + 1,
          ...(before && { before }),
        });
        const batches = page.slice(0, limit);
        const items = await shown(app, batches);
        return { items, nextToken: tokenOf(page.length > limit ? (batches.at(-1)?.id ?? null) : null) };
      },
    }),
    operation("GET", `${PATH}/{batch_id}`, {
      id: "getBatch",
      summary: "Get a batch of lines: how many wait, run and have ended",
      access: "run",
      response: ONE_BATCH,
      errors: ["app_not_found", "batch_not_found"],
      handle: async ({ params }) => {
        const app = await findApp(store, params);
        const id = params.batch_id.toLowerCase();
        const batch = await store.lineBatches.find({ appNumber: app.number, id });
        if (!batch) throw new AppError("batch_not_found");
        const [item] = await shown(app, [batch]);
        return { item: item! };
      },
    }),
  ];
}
