export const RUN_STATES = ["queued", "running", "success", "failure", "cancelled"] as const;
export type RunState = (typeof RUN_STATES)[number];

/** A run never leaves a final state. */
export function isFinal(state: RunState): boolean {
  return state !== "queued" && state !== "running";
}

export const WEBHOOK_STATES = ["none", "pending", "delivered", "failed"] as const;
export type WebhookState = (typeof WEBHOOK_STATES)[number];

/** The stored record of a run. Times are epoch milliseconds, spans are milliseconds. */
export type Run = {
  /** UUIDv7, text form. */
  readonly id: string;
  readonly appNumber: number;
  readonly versionId: string;
  readonly functionName: string;
  readonly method: string;
  readonly isAsync: boolean;
  readonly state: RunState;
  /** HTTP status of the internal synchronous call; null while unfinished and when cancelled. */
  readonly statusCode: number | null;
  readonly attempt: number;
  /** How often the service itself ended under it. */
  readonly interruptions: number;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
  readonly updatedAt: number;
  readonly replicaId: string | null;
  readonly replicaStartedAt: number | null;
  readonly ip: string | null;
  readonly webhookEndpoint: string | null;
  readonly webhookState: WebhookState;
  readonly errorCode: string | null;
  readonly errorMessage: string | null;
  /** Of an exception in the user's code. */
  readonly errorTraceback: string | null;
  /** From acceptance to hand-over to a replica. */
  readonly queueMs: number | null;
  /** Inside the user's function. */
  readonly runMs: number | null;
  /** From acceptance to the end. */
  readonly responseMs: number | null;
};
