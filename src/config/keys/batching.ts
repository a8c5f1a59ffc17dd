import type { BatchingConfig } from "../../model/app-config.ts";
import { FUNCTION_NAME } from "../../model/names.ts";
import { type AppKeys, duration, integer, matching, oneOf, optional, key } from "../readers.ts";

/** In the path of a key: the name of any function. */
export const ANY_FUNCTION = "FUNCTION";

/** How many functions of an app may be batched. */
export const MAX_BATCHED_FUNCTIONS = 100;

/** The name of a table in `[batching]`. */
export const batchedFunction = matching(
  "the name of a function: a letter, then up to 127 letters, digits and underscores",
  (text) => FUNCTION_NAME.test(text),
);

const pythonName = (what: string) =>
  matching(`the name of ${what}, of at most 128 characters`, (text) => PYTHON_NAME.test(text));
const PYTHON_NAME = /^[\p{ID_Start}_]\p{ID_Continue}{0,127}$/u;

/** The keys of `[batching.FUNCTION]`. */
export const BATCHING_KEYS: AppKeys<BatchingConfig> = {
  maxSize: key("batching.FUNCTION.max_size", null, integer(1, 1000), 64).describe(
    "The most calls in one batch. With `size`, the largest sum of their sizes; a larger call runs alone.",
  ),
  maxWaitSeconds: key("batching.FUNCTION.max_wait", null, duration("0s", "10s"), "10ms").describe(
    "The longest that a call waits for others to share its batch.",
  ),
  key: key("batching.FUNCTION.key", null, optional(pythonName("a parameter"))).describe(
    "A parameter: only calls with the same value share a batch.",
  ),
  size: key("batching.FUNCTION.size", null, optional(pythonName("a parameter"))).describe(
    "A parameter that says how large a call is: a whole number, or a text or list, whose length counts. Default: every call counts as one.",
  ),
  targetLatencySeconds: key(
    "batching.FUNCTION.target_latency",
    null,
    optional(duration("1ms", "1h")),
  ).describe("How long 95 of 100 calls may take, including their wait: batches stay small enough for it."),
  onError: key("batching.FUNCTION.on_error", null, oneOf(["split", "fail"]), "split").describe(
    "What follows when the function raises: split runs halves of the batch until the calls at fault are alone, fail ends all of its calls with that error.",
  ),
  stepper: key("batching.FUNCTION.stepper", null, optional(pythonName("a class"))).describe(
    "A class in `main.py` that runs the calls in place of a function, step by step. It excludes `max_size`, `max_wait`, `key`, `size`, `target_latency` and `on_error`.",
  ),
};

/** What a stepper decides itself. */
export const EXCLUDED_BY_STEPPER = [
  "maxSize",
  "maxWaitSeconds",
  "key",
  "size",
  "targetLatencySeconds",
  "onError",
] as const satisfies (keyof BatchingConfig)[];
