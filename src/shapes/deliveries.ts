import * as z from "zod/mini";
import { DELIVERY_STATES } from "../model/delivery.ts";
import { ID, TIMESTAMP, pagesOf } from "./common.ts";

const DELIVERY = z.object({
  id: z.uuid(),
  projectId: z.string(),
  /** Null if the app is deleted. */
  modelId: z.nullable(z.string()),
  url: z.string(),
  contentType: z.nullable(z.string()),
  runStatusCode: z.int(),
  state: z.enum(DELIVERY_STATES),
  attemptCount: z.int(),
  nextAt: z.nullable(TIMESTAMP),
  createdAt: TIMESTAMP,
  updatedAt: TIMESTAMP,
});
/** A run's response on its way to a webhook; it has the run's id. */
export type DeliveryRecord = z.infer<typeof DELIVERY>;

const ATTEMPT = z.object({
  number: z.int(),
  startedAt: TIMESTAMP,
  durationMs: z.number(),
  requestHeaders: z.record(z.string(), z.string()),
  status: z.nullable(z.int()),
  error: z.nullable(z.string()),
  nextAt: z.nullable(TIMESTAMP),
});
export type AttemptRecord = z.infer<typeof ATTEMPT>;

export const DELIVERIES = pagesOf(DELIVERY);

const WITH_ATTEMPTS = z.extend(DELIVERY, { attempts: z.array(ATTEMPT) });
export type DeliveryDetail = z.infer<typeof WITH_ATTEMPTS>;
export const ONE_DELIVERY = z.object({ item: WITH_ATTEMPTS });

/** How many deliveries are sent again. */
export const REDELIVERED = z.object({ redelivered: z.int() });

const SECRET = z.extend(ID, { createdAt: TIMESTAMP });
/** A secret that signs deliveries, without its value. */
export type SigningSecretRecord = z.infer<typeof SECRET>;
export const SIGNING_SECRETS = z.array(SECRET);

/** With its value, which is shown once. */
export const NEW_SIGNING_SECRET = z.extend(SECRET, { secret: z.string() });
export type NewSigningSecret = z.infer<typeof NEW_SIGNING_SECRET>;
