import type { Delivery, DeliveryAttempt } from "../model/delivery.ts";
import { appId } from "../model/names.ts";
import type { AttemptRecord, DeliveryRecord } from "../shapes/deliveries.ts";
import { timestamp } from "../shapes/timestamp.ts";

/** A delivery as the management API shows it. */
export function deliveryRecord(
  delivery: Delivery,
  projectId: string,
  appNames: ReadonlyMap<number, string>,
): DeliveryRecord {
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

/** One try at it. */
export function attemptRecord({ startedAt, nextAt, ...rest }: DeliveryAttempt): AttemptRecord {
  return {
    ...rest,
    startedAt: timestamp(startedAt),
    nextAt: nextAt === null ? null : timestamp(nextAt),
  };
}
