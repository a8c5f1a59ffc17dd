import { STEP_MS } from "../../runs/queue/history.ts";
import { timestamp } from "../../shapes/common.ts";
import { QUEUE_HISTORY } from "../../shapes/queue-history.ts";
import { findApp } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("Queues");

/** How an app's queue was in the last hour; the node that serves the app remembers it. */
export function queueHistoryOperations({
  store,
  queueHistory,
}: Pick<ManagementParts, "store" | "queueHistory">): Operation[] {
  return [
    operation("GET", "/v2/projects/{project_id}/apps/{app_id}/queue/history", {
      id: "getQueueHistory",
      summary: "Get how many runs waited in an app's queue in the last hour, and how many began",
      access: "run",
      response: QUEUE_HISTORY,
      errors: ["app_not_found"],
      handle: async ({ params }) => {
        const { fromMs, moments } = queueHistory.of((await findApp(store, params)).number);
        return { from: timestamp(fromMs), stepMs: STEP_MS, steps: [...moments] };
      },
    }),
  ];
}
