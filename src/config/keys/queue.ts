import { parseDuration } from "../../kit/units.ts";
import type { BatchesConfig, QueueConfig, Rate } from "../../model/app-config.ts";
import { type AppKeys, boolean, integer, key, optional, type Reader } from "../readers.ts";

const MAX_RATE = 1_000_000;
const MAX_PERIOD_SECONDS = 24 * 3600;

/** Takes a count and a duration, such as "100/1m". */
const rate: Reader<Rate> = {
  expects: `a number from 1 to ${MAX_RATE} and a duration from 1s to 24h, such as "100/1m"`,
  read: (raw) => {
    const [, digits = "", text = ""] =
      (typeof raw === "string" && /^(\d{1,7})\/([^/]{1,40})$/.exec(raw)) || [];
    const count = Number(digits);
    const periodSeconds = parseDuration(text) ?? 0;
    const fits = count >= 1 && count <= MAX_RATE && periodSeconds >= 1 && periodSeconds <= MAX_PERIOD_SECONDS;
    return fits ? { count, periodSeconds } : undefined;
  },
};

/** The keys of `[queue]`. */
export const QUEUE_KEYS: AppKeys<QueueConfig> = {
  concurrencyLimit: key("queue.concurrency_limit", null, optional(integer(1, 10_000))).describe(
    "How many async runs of the app run at once, on all nodes together.",
  ),
  concurrencyKeyLimit: key("queue.concurrency_key_limit", null, optional(integer(1, 10_000))).describe(
    "How many async runs with the same `concurrency_key` run at once.",
  ),
  rateLimit: key("queue.rate_limit", null, optional(rate)).describe(
    "How many async runs begin in any period of this length, such as `100/1m`. Attempts count; what begins again because a service died does not.",
  ),
  concurrencyKeyRateLimit: key("queue.concurrency_key_rate_limit", null, optional(rate)).describe(
    "The same for async runs with the same `concurrency_key`.",
  ),
  maxBacklog: key("queue.max_backlog", null, optional(integer(1, 10_000_000))).describe(
    "How many async runs may wait for their turn; beyond that, async calls get 429 `backlog_full`.",
  ),
};

/** The keys of `[batches]`. */
export const BATCHES_KEYS: AppKeys<BatchesConfig> = {
  openai: key("batches.openai", null, boolean(), false).describe(
    "Whether each function, or the server, also has OpenAI's Batch API, below the address that OpenAI's clients use for its chat: see [batches.md](batches.md#openais-batch-api).",
  ),
};
