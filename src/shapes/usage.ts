import * as z from "zod/mini";
import { USAGE_GROUPS } from "../model/usage.ts";

/** What an account or a project may use; null: no limit. */
export const QUOTAS = z.object({
  callsPerMinute: z.nullable(z.int()),
  concurrentRuns: z.nullable(z.int()),
  gpuSecondsPerDay: z.nullable(z.int()),
});

const COUNT = z.int().check(z.gte(0));
const SECONDS = z.number().check(z.gte(0));

/** What some calls used. The first members are there if usage is added up by them. */
const USED = z.object({
  day: z.optional(z.iso.date()),
  appId: z.optional(z.string()),
  /** A service account or a person; null for calls without a token. */
  accountId: z.optional(z.nullable(z.string())),
  tag: z.optional(z.string()),
  calls: COUNT,
  succeeded: COUNT,
  failed: COUNT,
  cancelled: COUNT,
  /** Attempts after which runs were tried again. */
  retries: COUNT,
  /** Inside the function. */
  runSeconds: SECONDS,
  /** The same on replicas with GPUs, times their GPUs. */
  gpuSeconds: SECONDS,
  requestBytes: COUNT,
  responseBytes: COUNT,
  inputTokens: COUNT,
  outputTokens: COUNT,
  /** What replicas used, with calls or without. Only by day and app, and of all tokens and tags. */
  replicas: z.optional(
    z.object({ seconds: SECONDS, cpuSeconds: SECONDS, gpuSeconds: SECONDS, gbSeconds: SECONDS }),
  ),
});
export type UsageRecord = z.infer<typeof USED>;

/** The usage of a project: both days are included. */
export const PROJECT_USAGE = z.object({
  from: z.iso.date(),
  to: z.iso.date(),
  groupBy: z.array(z.enum(USAGE_GROUPS)),
  items: z.array(USED),
});
export type ProjectUsage = z.infer<typeof PROJECT_USAGE>;
