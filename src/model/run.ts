import type { RunSchedule } from "./schedule.ts";
import type { Terms } from "./terms.ts";
import type { RunTrace } from "./trace.ts";

export const RUN_STATES = ["queued", "running", "success", "failure", "cancelled"] as const;
export type RunState = (typeof RUN_STATES)[number];

/** Every legal change of a stored state. A run is first stored as queued, as running by its node, or ended. */
export const RUN_MOVES = {
  /** A service takes it to execute it. */
  claim: { from: "queued", to: ["running"] },
  /** The service with the claim records its end. */
  finish: { from: "running", to: ["success", "failure", "cancelled"] },
  /** Its replica or the service ended: it waits again. */
  release: { from: "running", to: ["queued"] },
  /** It ends without having begun. */
  drop: { from: "queued", to: ["failure", "cancelled"] },
} as const satisfies Record<string, { readonly from: RunState; readonly to: readonly RunState[] }>;
export type RunMove = keyof typeof RUN_MOVES;

export const UNFINISHED: readonly RunState[] = RUN_STATES.filter((state) =>
  Object.values(RUN_MOVES).some(({ from }) => from === state),
);

/** A run never leaves a final state. */
export function isFinal(state: RunState): boolean {
  return !UNFINISHED.includes(state);
}

/** Throws unless the move leads to that state. */
export function requireMove(move: RunMove, to: RunState): void {
  const states: readonly RunState[] = RUN_MOVES[move].to;
  if (!states.includes(to)) throw new RangeError(`a run cannot ${move} to ${to}`);
}

export const WEBHOOK_STATES = ["none", "pending", "delivered", "failed"] as const;
export type WebhookState = (typeof WEBHOOK_STATES)[number];

/**
 * Why a batch left when it did: a replica had nothing else to do, no more calls fitted in, `max_wait` was over, a call had
 * little time left, or the replicas were ending.
 */
export const BATCH_REASONS = ["idle", "full", "window", "deadline", "drain"] as const;
export type BatchReason = (typeof BATCH_REASONS)[number];

/** The account or person that asked for a run. */
export type RunCaller = {
  readonly accountId: string;
  /** The end user of the account that the token was made for; null for the account itself. */
  readonly user: string | null;
};

/** The stored record of a run. Times are epoch milliseconds, spans are milliseconds. */
export type Run = {
  /** UUIDv7, text form. */
  readonly id: string;
  readonly appNumber: number;
  readonly versionId: string;
  readonly functionName: string;
  readonly method: string;
  readonly isAsync: boolean;
  readonly isWebSocket: boolean;
  readonly state: RunState;
  /** HTTP status of the internal synchronous call; null while unfinished and when cancelled. */
  readonly statusCode: number | null;
  readonly attempt: number;
  /** How often the service ended during it. */
  readonly interruptions: number;
  readonly createdAt: number;
  /** When a queued run may begin; null: now. */
  readonly dueAt: number | null;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
  readonly updatedAt: number;
  readonly replicaId: string | null;
  readonly replicaStartedAt: number | null;
  readonly ip: string | null;
  /** Of its caller; null for a call without a token. */
  readonly accountId: string | null;
  readonly user: string | null;
  readonly webhookEndpoint: string | null;
  readonly webhookState: WebhookState;
  readonly errorCode: string | null;
  readonly errorMessage: string | null;
  /** Of an exception in the user's code. */
  readonly errorTraceback: string | null;
  /** From acceptance until a replica got it. */
  readonly queueMs: number | null;
  /** Inside the user's function. */
  readonly runMs: number | null;
  readonly responseMs: number | null;
  /** Bytes of bodies, chunks or WebSocket frames; null if no replica got the call. */
  readonly requestBytes: number | null;
  readonly responseBytes: number | null;
  /** How many calls left for the replica together, and why then; null if its function is not batched. */
  readonly batchSize: number | null;
  readonly batchReason: BatchReason | null;
  /** Inside the function, times the GPUs of its replica; null without any. A batch shares it out. */
  readonly gpuMs: number | null;
  /** Of a model, as its answer says; null if it does not. */
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  /** What its caller asked of the queue; null: nothing. */
  readonly terms: Terms | null;
  /** Null if it belongs to none. */
  readonly trace: RunTrace | null;
};

/** An attempt after which the run was tried again. */
export type RunAttempt = Pick<Run, "startedAt" | "replicaId" | "runMs" | "gpuMs"> & {
  /** From 1. */
  readonly number: number;
  readonly endedAt: number;
  readonly errorCode: string;
  readonly errorMessage: string;
};

/** How far a run says that it has come; a fraction from 0 to 1. */
export type Progress = {
  readonly fraction: number | null;
  readonly message: string | null;
  /** When it said so. */
  readonly at: number;
};

/** That a run made a checkpoint: how many chunks were stored with it, and by which attempt. */
export type CheckpointNote = { readonly at: number; readonly sent: number; readonly attempt: number };

/** A checkpoint with its value, as JSON. */
export type Checkpoint = CheckpointNote & { readonly value: Uint8Array };

/** How far a run has come, as far as its code has said it. */
export type RunAdvance = { readonly progress: Progress | null; readonly checkpoint: CheckpointNote | null };

/** What a run waits for: its turn, or the start of a replica, of which it says how far it is. */
export const WAIT_PHASES = ["queued", "waiting_for_gpu", "starting", "importing", "setup"] as const;
export type WaitPhase = (typeof WAIT_PHASES)[number];

/** Where a run stands that waits for its turn. */
export type QueuePlace = {
  /** From 1. */
  readonly position: number;
  /** Null if nothing is known of how fast the runs before it will begin. */
  readonly expectedStartAt: number | null;
  readonly phase: WaitPhase;
};

/** What is known of a run beside its record, where it is read by itself. */
export type RunDetails = RunAdvance & {
  /** Its earlier attempts. */
  readonly failed: readonly RunAttempt[];
  /** What started it; null if a caller did. */
  readonly schedule: RunSchedule | null;
  /** Null if it does not wait for its turn. */
  readonly place: QueuePlace | null;
};

/** The key of a stored run. */
export type RunKey = Pick<Run, "appNumber" | "id">;

/** The properties that are fixed before a run is accepted. */
type RunOrigin = {
  readonly id: string;
  readonly target: Pick<Run, "appNumber" | "versionId">;
  readonly functionName: string;
  /** Of a run of a server app; a function is always called by POST. */
  readonly http?: { readonly method: string; readonly isUpgrade?: boolean };
  readonly ip: string | null;
  /** Null for a call without a token. */
  readonly caller: RunCaller | null;
  readonly webhook: { readonly endpoint: string } | null;
  readonly terms?: Terms | null;
  readonly trace?: RunTrace | null;
};

export const NOT_BEGUN = {
  statusCode: null,
  attempt: 1,
  interruptions: 0,
  dueAt: null,
  startedAt: null,
  completedAt: null,
  replicaId: null,
  replicaStartedAt: null,
  errorCode: null,
  errorMessage: null,
  errorTraceback: null,
  queueMs: null,
  runMs: null,
  responseMs: null,
  requestBytes: null,
  responseBytes: null,
  batchSize: null,
  batchReason: null,
  gpuMs: null,
  inputTokens: null,
  outputTokens: null,
} as const satisfies Partial<Run>;

type RunProgress = Pick<Run, keyof typeof NOT_BEGUN | "isAsync" | "state" | "createdAt">;

/** Makes every record that is not read from the store. Field by field, because a spread is slow. */
export function makeRun(origin: RunOrigin, progress: RunProgress): Run {
  const { target, webhook, caller } = origin;
  const { createdAt, startedAt, completedAt } = progress;
  return {
    id: origin.id,
    appNumber: target.appNumber,
    versionId: target.versionId,
    functionName: origin.functionName,
    method: origin.http === undefined ? "POST" : origin.http.method,
    isAsync: progress.isAsync,
    isWebSocket: origin.http?.isUpgrade ?? false,
    state: progress.state,
    statusCode: progress.statusCode,
    attempt: progress.attempt,
    interruptions: progress.interruptions,
    createdAt,
    dueAt: progress.dueAt,
    startedAt,
    completedAt,
    updatedAt: completedAt ?? startedAt ?? createdAt,
    replicaId: progress.replicaId,
    replicaStartedAt: progress.replicaStartedAt,
    ip: origin.ip,
    accountId: caller && caller.accountId,
    user: caller && caller.user,
    webhookEndpoint: webhook?.endpoint ?? null,
    webhookState: webhook ? "pending" : "none",
    errorCode: progress.errorCode,
    errorMessage: progress.errorMessage,
    errorTraceback: progress.errorTraceback,
    queueMs: progress.queueMs,
    runMs: progress.runMs,
    responseMs: progress.responseMs,
    requestBytes: progress.requestBytes,
    responseBytes: progress.responseBytes,
    batchSize: progress.batchSize,
    batchReason: progress.batchReason,
    gpuMs: progress.gpuMs,
    inputTokens: progress.inputTokens,
    outputTokens: progress.outputTokens,
    terms: origin.terms ?? null,
    trace: origin.trace ?? null,
  };
}

/** Null if it is not known. */
export function callerOf({ accountId, user }: Pick<Run, "accountId" | "user">): RunCaller | null {
  return accountId === null ? null : { accountId, user };
}

export function isCallerOf({ accountId, user }: RunCaller, run: Pick<Run, "accountId" | "user">): boolean {
  return run.accountId === accountId && run.user === user;
}

/** How a run ended if its code did not decide that. */
export type RunFate = Pick<Run, "state" | "statusCode" | "errorCode" | "errorMessage">;

/** The record of a run that ended at that time. */
export function endRun(run: Run, fate: RunFate, now: number): Run {
  const responseMs = Math.max(0, now - run.createdAt);
  return { ...run, ...fate, dueAt: null, completedAt: now, updatedAt: now, responseMs };
}

/** The record as it was before the run's end. */
export function withoutEnd(run: Run): Run {
  return {
    ...run,
    state: "running",
    statusCode: null,
    completedAt: null,
    updatedAt: run.startedAt ?? run.createdAt,
    errorCode: null,
    errorMessage: null,
    errorTraceback: null,
    runMs: null,
    responseMs: null,
    gpuMs: null,
    inputTokens: null,
    outputTokens: null,
  };
}

export type PayloadBlob = { readonly hash: string; readonly bytes: number };

/** The data of a run that is stored in addition to its record. */
export type Payload = {
  /** The arguments, unchanged; null if they are not kept, or are in a blob. */
  readonly input: Uint8Array | null;
  readonly inputBlob?: PayloadBlob;
  /** The body of the response, byte for byte; null if there is none yet, it is not kept, or it is in a blob. */
  readonly result: Uint8Array | null;
  readonly resultBlob?: PayloadBlob;
  /** Of the response; null when it has no body. */
  readonly contentType: string | null;
  /** The response is the bare result, without the envelope. */
  readonly isBare: boolean;
  /** The caller's own webhook secret, sealed. */
  readonly sealedSecret: Uint8Array | null;
};

/** A piece of a run's transcript: chunks of consecutive numbers (from 1), in the transcript's own framing. */
export type TranscriptPart = {
  readonly firstEvent: number;
  readonly eventCount: number;
  readonly bytes: Uint8Array;
};

export type RunPart = RunKey & TranscriptPart;

/** The name of a file run in place of a function's: `FILE` or `FILE::FUNCTION`. */
export function fileRunName(fileName: string, functionName: string | null): string {
  return functionName === null ? fileName : `${fileName}::${functionName}`;
}

/** A function's name has no dot; that of a file run always has one. */
export function isFileRun({ functionName }: { readonly functionName: string }): boolean {
  return functionName.includes(".");
}
