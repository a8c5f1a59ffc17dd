import type { BatchesConfig } from "../../model/app-config.ts";
import { type AppKeys, boolean, key } from "../readers.ts";

/** The keys of `[batches]`. */
export const BATCHES_KEYS: AppKeys<BatchesConfig> = {
  openai: key("batches.openai", null, boolean(), false).describe(
    "Whether each function, or the server, also has OpenAI's Batch API, below the address that OpenAI's clients use for its chat: see [batches.md](batches.md#openais-batch-api).",
  ),
};
