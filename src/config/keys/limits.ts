import { DEFAULT_LOG_BYTES, type LimitsConfig } from "../../model/app-config.ts";
import { type AppKeys, duration, size } from "../readers.ts";

/** The keys of `[limits]`. */
export const LIMITS_KEYS: AppKeys<LimitsConfig> = {
  maxBodyBytes: {
    path: "limits.max_body",
    reader: size("1KiB", "256MiB"),
    default: "32MiB",
    meaning: "The largest request body.",
  },
  maxResultBytes: {
    path: "limits.max_result",
    reader: size("1KiB", "256MiB"),
    default: "32MiB",
    meaning: "The largest result.",
  },
  maxChunkBytes: {
    path: "limits.max_chunk",
    reader: size("1KiB", "64MiB"),
    default: "4MiB",
    meaning: "The largest single chunk of a stream.",
  },
  maxTranscriptBytes: {
    path: "limits.max_transcript",
    reader: size("1KiB", "1GiB"),
    default: "64MiB",
    meaning:
      "How much of a stream is stored. Beyond it, an async or forwarded run fails; a live stream goes on.",
  },
  resultRetentionSeconds: {
    path: "limits.result_retention",
    reader: duration("1m", "30d"),
    default: "24h",
    meaning: "How long inputs, results and transcripts are kept.",
  },
  maxLogBytes: {
    path: "limits.max_logs",
    reader: size("1MB", "1000TB"),
    default: `${DEFAULT_LOG_BYTES / 1e6}MB`,
    meaning:
      "How much space the app's log lines may take; beyond that, the oldest are removed first. MILLRACE_MAX_LOGS limits all apps together.",
  },
  streamStallTimeoutSeconds: {
    path: "limits.stream_stall_timeout",
    reader: duration("1s", "1h"),
    default: "60s",
    meaning: "How long the reader of a stream may stall before it is disconnected.",
  },
};
