import { DEFAULT_LOG_BYTES, type LimitsConfig } from "../../model/app-config.ts";
import { type AppKeys, duration, size, key } from "../readers.ts";

/** The keys of `[limits]`. */
export const LIMITS_KEYS: AppKeys<LimitsConfig> = {
  maxBodyBytes: key("limits.max_body", null, size("1KiB", "256MiB"), "32MiB").describe(
    "The largest request body.",
  ),
  maxResultBytes: key("limits.max_result", null, size("1KiB", "256MiB"), "32MiB").describe(
    "The largest result.",
  ),
  maxChunkBytes: key("limits.max_chunk", null, size("1KiB", "64MiB"), "4MiB").describe(
    "The largest single chunk of a stream.",
  ),
  maxTranscriptBytes: key("limits.max_transcript", null, size("1KiB", "1GiB"), "64MiB").describe(
    "How much of a stream is stored. Beyond it, an async or forwarded run fails; a live stream continues.",
  ),
  resultRetentionSeconds: key("limits.result_retention", null, duration("1m", "30d"), "24h").describe(
    "How long inputs, results and transcripts are kept.",
  ),
  maxLogBytes: key("limits.max_logs", null, size("1MB", "1000TB"), `${DEFAULT_LOG_BYTES / 1e6}MB`).describe(
    "How much space the app's log lines may take; beyond that, the oldest are removed first. MILLRACE_MAX_LOGS limits all apps together.",
  ),
  streamStallTimeoutSeconds: key("limits.stream_stall_timeout", null, duration("1s", "1h"), "60s").describe(
    "How long the reader of a stream may stall before it is disconnected.",
  ),
};
