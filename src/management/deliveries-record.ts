import { z } from "zod";
import { DELIVERY_STATES } from "../model/delivery.ts";
import type { Delivery, DeliveryAttempt } from "../model/delivery.ts";
import { appId } from "../model/names.ts";
import { TIMESTAMP, timestamp } from "./api/schemas.ts";

/** A delivery as the management API shows it. */
export const DELIVERY = z.object({
  id: z.uuid(),
  projectId: z.string(),
  /** Null once the app is deleted. */
  modelId: z.string().nullable(),
  url: z.string(),
  contentType: z.string().nullable(),
  runStatusCode: z.int(),
  state: z.enum(DELIVERY_STATES),
  attemptCount: z.int(),
  nextAt: TIMESTAMP.nullable(),
  createdAt: TIMESTAMP,
  updatedAt: TIMESTAMP,
});

/** One try at it. */
export const ATTEMPT = z.object({
  number: z.int(),
  startedAt: TIMESTAMP,
  durationMs: z.number(),
  requestHeaders: z.record(z.string(), z.string()),
  status: z.int().nullable(),
  error: z.string().nullable(),
  nextAt: TIMESTAMP.nullable(),
});

/** A stored delivery in that form. */
export function deliveryRecord(
  delivery: Delivery,
  projectId: string,
  appNames: ReadonlyMap<number, string>,
): z.infer<typeof DELIVERY> {
  const { id, appNumber, url, contentType, runStatus, state, nextAt, createdAt, updatedAt } = delivery;
  const name = appNames.get(appNumber);
  return {
    id,
    projectId,
    modelId: name === undefined ? null : appId(projectId, name),
    url,
    contentType,
    runStatusCode: runStatus,
    state,
    attemptCount: delivery.attempts,
    nextAt: nextAt === null ? null : timestamp(nextAt),
    createdAt: timestamp(createdAt),
    updatedAt: timestamp(updatedAt),
  };
}

/** A stored attempt in that form. */
export function attemptRecord({ startedAt, nextAt, ...rest }: DeliveryAttempt): z.infer<typeof ATTEMPT> {
  return {
    ...rest,
    startedAt: timestamp(startedAt),
    nextAt: nextAt === null ? null : timestamp(nextAt),
  };
}
