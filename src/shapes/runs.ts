import * as z from "zod/mini";
import { RUN_STATES, WEBHOOK_STATES } from "../model/run.ts";
import { FAULT, TIMESTAMP, pagesOf } from "./common.ts";

/** A run as both planes show it. Field names and shapes are exact: existing clients read them. */
export const RUN = z.object({
  id: z.uuid(),
  projectId: z.string(),
  modelId: z.string(),
  functionName: z.string(),
  method: z.string(),
  async: z.boolean(),
  websocket: z.boolean(),
  status: z.enum([...RUN_STATES, "failed"]),
  statusCode: z.nullable(z.int()),
  attempt: z.int(),
  createdAt: TIMESTAMP,
  startedAt: z.nullable(TIMESTAMP),
  completedAt: z.nullable(TIMESTAMP),
  updatedAt: TIMESTAMP,
  containerId: z.nullable(z.string()),
  containerStartedAt: z.nullable(TIMESTAMP),
  ip: z.nullable(z.string()),
  region: z.nullable(z.string()),
  webhookEndpoint: z.nullable(z.string()),
  webhookStatus: z.enum(WEBHOOK_STATES),
  error: z.nullable(FAULT),
  queueTimeMs: z.nullable(z.number()),
  runtimeMs: z.nullable(z.number()),
  responseTimeMs: z.nullable(z.number()),
  activatorQueueTimeMs: z.nullable(z.int()),
  containerQueueTimeMs: z.nullable(z.int()),
  totalQueueTimeMs: z.nullable(z.int()),
  executionTimeMs: z.nullable(z.int()),
  totalResponseTimeMs: z.nullable(z.int()),
  requestBytes: z.nullable(z.int()),
  responseBytes: z.nullable(z.int()),
  /** Of an end user's run alone. */
  accountId: z.optional(z.nullable(z.string())),
  user: z.optional(z.nullable(z.string())),
});
export type RunRecord = z.infer<typeof RUN>;

/** Runs, newest first, a page of them. */
export const RUNS = pagesOf(RUN);
export type RunPage = z.infer<typeof RUNS>;

/** One run. */
export const ONE_RUN = z.object({ item: RUN });

/** A run that was accepted, whose result comes later. */
export const ACCEPTED_RUN = z.object({ run_id: z.uuid() });

/** A file run that has begun. */
export const FILE_RUN = z.object({ runId: z.uuid() });

/** The packages that files run with, on their way or there. */
export const BASE_IMAGE = z.object({ status: z.enum(["ready", "building"]), digest: z.string() });
