import type { App } from "../../model/app.ts";
import { AppError } from "../../model/errors.ts";
import type { QueueState } from "../../model/queue-limits.ts";
import { STEP_MS } from "../../runs/queue/history.ts";
import { timestamp } from "../../shapes/common.ts";
import { ONE_QUEUE, QUEUE_HISTORY, type QueueRecord } from "../../shapes/queues.ts";
import { findApp } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("Queues");
const PATH = "/v2/projects/{project_id}/apps/{app_id}/queue";
/** More are not counted: this many take about 100 ms. */
const MAX_COUNTED = 100_000;

/** The queue of each app's async runs. */
export function queueOperations({ store, catalog, queueStates, clock }: ManagementParts): Operation[] {
  const queueOf = async (app: App): Promise<QueueRecord> => {
    const { number: appNumber, currentVersionId } = app;
    const [stored, depth, version] = await Promise.all([
      store.queueStates.find(appNumber),
      store.queueDepth.of({ appNumber, most: MAX_COUNTED }),
      catalog.byNumber(appNumber)?.version ?? (currentVersionId && store.versions.find(currentVersionId)),
    ]);
    if (!stored) throw new AppError("app_not_found");
    const { high, normal, low, hasMore, oldestAt, running, parked } = depth;
    return {
      state: stored.state,
      changedAt: stored.changedAt === null ? null : timestamp(stored.changedAt),
      waiting: Math.min(MAX_COUNTED, high + normal + low),
      byPriority: { high, normal, low },
      hasMore,
      oldestAt: oldestAt === null ? null : timestamp(oldestAt),
      running,
      parked,
      limits: (version && version.config.queue) || null,
    };
  };
  const changing = (verb: string, summary: string, state: QueueState): Operation =>
    operation("POST", `${PATH}/${verb}`, {
      id: `${verb}Queue`,
      summary,
      access: "deploy",
      response: ONE_QUEUE,
      errors: ["app_not_found"],
      handle: async (call) => {
        const app = await findApp(store, call.params);
        const { number: appNumber } = app;
        const before = await store.queueStates.find(appNumber);
        // Idempotent.
        const isChanged = await store.queueStates.change({ appNumber, state, now: clock.now() });
        queueStates.apply(appNumber, state);
        if (isChanged)
          await call.record(`queue.${verb}`, call.params.app_id, {
            before: { state: before?.state },
            after: { state },
          });
        return { item: await queueOf(app) };
      },
    });

  return [
    operation("GET", PATH, {
      id: "getQueue",
      summary: "Get the queue of an app's async runs: how many wait, by priority, and what limits them",
      access: "run",
      isHeavy: () => true,
      response: ONE_QUEUE,
      errors: ["app_not_found"],
      handle: async ({ params }) => ({ item: await queueOf(await findApp(store, params)) }),
    }),
    changing(
      "pause",
      "Pause the queue: async runs are accepted, but none begins until it is resumed",
      "paused",
    ),
    changing("resume", "Resume a queue that is paused or draining", "open"),
    changing(
      "drain",
      "Drain the queue: no async run is accepted until it is resumed; accepted ones begin",
      "draining",
    ),
  ];
}

/** How an app's queue was in the last hour; the node that serves the app remembers it. */
export function queueHistoryOperations({
  store,
  queueHistory,
}: Pick<ManagementParts, "store" | "queueHistory">): Operation[] {
  return [
    operation("GET", `${PATH}/history`, {
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
