import type { PayloadBlob } from "./run.ts";

export const DELIVERY_STATES = ["pending", "delivered", "failed"] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** A run's response on its way to a webhook. There is one per run, and the run's id is its id. */
export type Delivery = {
  readonly id: string;
  readonly appNumber: number;
  readonly url: string;
  readonly contentType: string | null;
  /** HTTP status of the internal call. */
  readonly runStatus: number;
  /** Null if it is no longer kept, or if it is in a blob. */
  readonly body: Uint8Array | null;
  readonly bodyBlob?: PayloadBlob;
  readonly sealedSecret: Uint8Array | null;
  readonly state: DeliveryState;
  /** Made so far. */
  readonly attempts: number;
  /** When the next attempt is due; null when none is. */
  readonly nextAt: number | null;
  readonly createdAt: number;
  readonly updatedAt: number;
};

/** A delivery without an attempt yet; `nextAt` says when the first is due. */
export type NewDelivery = Omit<Delivery, "state" | "attempts" | "updatedAt">;

/** One try at a delivery, as it is kept on record. */
export type DeliveryAttempt = {
  /** From 1. */
  readonly number: number;
  readonly startedAt: number;
  readonly durationMs: number;
  readonly requestHeaders: Readonly<Record<string, string>>;
  /** Of the answer; null when there was none. */
  readonly status: number | null;
  /** Why there was no answer, or why it did not count. */
  readonly error: string | null;
  /** When the next one is due; null when this was the last. */
  readonly nextAt: number | null;
};
