/**
 * What an app's queue of async runs does: it takes and begins runs (`open`), takes them and begins none (`paused`), or begins
 * them and takes no more (`draining`). Stored by its place in this list.
 */
export const QUEUE_STATES = ["open", "paused", "draining"] as const;
export type QueueState = (typeof QUEUE_STATES)[number];
