import type { PayloadBlob } from "./run.ts";
import type { RunTrace } from "./trace.ts";

export const DELIVERY_STATES = ["pending", "delivered", "failed"] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** The sending of a run's response to a webhook; its id is the run's. */
export type Delivery = {
  readonly id: string;
  readonly appNumber: number;
  readonly url: string;
  readonly contentType: string | null;
  /** HTTP status of the internal call. */
  readonly runStatus: number;
  /** Null if it is no longer kept, or is in a blob. */
  readonly body: Uint8Array | null;
  readonly bodyBlob?: PayloadBlob;
  readonly sealedSecret: Uint8Array | null;
  readonly state: DeliveryState;
  readonly attempts: number;
  /** When the next attempt is due; null if none is. */
  readonly nextAt: number | null;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Of the run; null if it belongs to none. */
  readonly trace: RunTrace | null;
};

/** A delivery without an attempt yet; `nextAt` says when the first is due. */
export type NewDelivery = Omit<Delivery, "state" | "attempts" | "updatedAt">;

export type DeliveryAttempt = {
  /** From 1. */
  readonly number: number;
  readonly startedAt: number;
  readonly durationMs: number;
  readonly requestHeaders: Readonly<Record<string, string>>;
  /** Null if there was no answer. */
  readonly status: number | null;
  /** Why there was no answer, or why it was not accepted. */
  readonly error: string | null;
  /** Null if this was the last. */
  readonly nextAt: number | null;
};
