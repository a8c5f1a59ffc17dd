import { section } from "./row.ts";

/** Calls that share an execution. */
export const BATCHING = {
  ...section("docs/batching.md: When a batch leaves", {
    "batching.idle": "A call that finds an idle replica does not wait for others.",
    "batching.alone": "A caller who calls one call after the other never waits for others.",
    "batching.untuned":
      "Without settings, batches serve at least 95 % of the calls that the best fixed size and wait serve.",
    "batching.dispatch":
      "Each call ends once, in a batch of its own function and key, and none is left over.",
  }),
  ...section("docs/batching.md: Batches", {
    "batching.own": "Each call of a batch gets its own answer.",
  }),
  ...section("docs/batching.md: Errors", {
    "batching.split": "If the function raises, halves of the batch run until the calls at fault are alone.",
    "batching.crash": "After a crash the calls of a batch run alone, and only a crash alone ends a call.",
  }),
};
