import { z } from "zod";
import { RUN_STATES, WEBHOOK_STATES } from "../../model/run.ts";

/** A time as the API shows it: RFC 3339, UTC. */
export const TIMESTAMP = z.iso.datetime();

/** Epoch milliseconds as the API shows them. */
export function timestamp(at: number): string {
  return new Date(at).toISOString();
}

export const PROJECT_PATH = z.object({ project_id: z.string().min(1).max(100) });
export const APP_PATH = PROJECT_PATH.extend({ app_id: z.string().min(1).max(200) });

/** What a person is in a project. */
export const MEMBER_ROLE = z.enum(["owner", "member"]);

/** Where a list goes on; opaque to callers, empty at its end. */
export const NEXT_TOKEN = z.string().max(1000);

/** How many entries a page has. */
export function pageSize(byDefault: number, max: number): z.ZodDefault<z.ZodCoercedNumber> {
  return z.coerce.number().int().min(1).max(max).default(byDefault);
}

/** A run as both planes show it. */
export const RUN = z.object({
  id: z.uuid(),
  projectId: z.string(),
  modelId: z.string(),
  functionName: z.string(),
  method: z.string(),
  async: z.boolean(),
  websocket: z.boolean(),
  status: z.enum([...RUN_STATES, "failed"]),
  statusCode: z.int().nullable(),
  attempt: z.int(),
  createdAt: TIMESTAMP,
  startedAt: TIMESTAMP.nullable(),
  completedAt: TIMESTAMP.nullable(),
  updatedAt: TIMESTAMP,
  containerId: z.string().nullable(),
  containerStartedAt: TIMESTAMP.nullable(),
  ip: z.string().nullable(),
  region: z.string().nullable(),
  webhookEndpoint: z.string().nullable(),
  webhookStatus: z.enum(WEBHOOK_STATES),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  queueTimeMs: z.number().nullable(),
  runtimeMs: z.number().nullable(),
  responseTimeMs: z.number().nullable(),
  activatorQueueTimeMs: z.int().nullable(),
  containerQueueTimeMs: z.int().nullable(),
  totalQueueTimeMs: z.int().nullable(),
  executionTimeMs: z.int().nullable(),
  totalResponseTimeMs: z.int().nullable(),
});

/** One line of text somebody gives a thing as its name. */
export function line(maxChars: number): z.ZodString {
  return z
    .string()
    .trim()
    .min(1)
    .max(maxChars)
    .regex(/^[^\p{Cc}\p{Cs}]*$/u, "has control characters");
}

/** Text somebody writes about a thing; line breaks and tabs are part of it. */
export function prose(maxChars: number): z.ZodString {
  return z
    .string()
    .max(maxChars)
    .regex(/^(?:[^\p{Cc}\p{Cs}]|[\t\n\r])*$/u, "has control characters");
}
