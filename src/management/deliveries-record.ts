import type { Delivery, DeliveryAttempt } from "../model/delivery.ts";
import { appId } from "../model/names.ts";

/** A delivery as the management API shows it; with its attempts where they are given. */
export function deliveryRecord(
  delivery: Delivery,
  projectId: string,
  appNames: ReadonlyMap<number, string>,
  attempts?: readonly DeliveryAttempt[],
): Record<string, unknown> {
  const { id, appNumber, url, contentType, runStatus, state, nextAt, createdAt, updatedAt } = delivery;
  const name = appNames.get(appNumber);
  return {
    id,
    projectId,
    /** Null once the app is deleted. */
    modelId: name === undefined ? null : appId(projectId, name),
    url,
    contentType,
    runStatusCode: runStatus,
    state,
    attemptCount: delivery.attempts,
    nextAt: timestamp(nextAt),
    createdAt: timestamp(createdAt),
    updatedAt: timestamp(updatedAt),
    ...(attempts && { attempts: attempts.map(attemptRecord) }),
  };
}

function attemptRecord({ startedAt, nextAt, ...rest }: DeliveryAttempt): Record<string, unknown> {
  return { ...rest, startedAt: timestamp(startedAt), nextAt: timestamp(nextAt) };
}

function timestamp(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}
