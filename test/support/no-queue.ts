import type { SlotsOutlook } from "../../src/replicas/slots/slots.ts";
import type { QueueWatch } from "../../src/runs/queue/watch.ts";

/** Of slots for which nothing waits. */
export function emptyOutlook<C>(): SlotsOutlook<C> {
  return { phase: null, meanRunMs: 0, backlog: 0, ranks: new Map() };
}

/** No run waits. */
export const NO_OUTLOOK = { of: () => Promise.resolve(null) };

/** Watches nothing. */
export const NO_QUEUE_WATCH: Pick<QueueWatch, "watch"> = { watch: () => () => {} };
