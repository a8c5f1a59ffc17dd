import type { Clock } from "../kit/clock.ts";
import type { Outcome } from "../model/outcome.ts";
import type { Run, RunState } from "../model/run.ts";
import { Call } from "../replicas/call.ts";
import type { CallReader } from "../replicas/call.ts";
import type { Pool } from "../replicas/pool.ts";
import type { Journal } from "./journal.ts";
import { respond } from "./response.ts";
import type { RunResponse } from "./response.ts";

/** Where a run goes. */
export type RunTarget = { readonly appNumber: number; readonly versionId: string; readonly pool: Pool };

export type RunRequest = {
  readonly id: string;
  readonly target: RunTarget;
  readonly functionName: string;
  /** The arguments, checked, as the bytes that came. */
  readonly body: Buffer;
  readonly isBare: boolean;
  readonly ip: string | null;
};

/** Spans of a run, in milliseconds; null where it did not get so far. */
export type RunTiming = {
  /** Waiting while a replica was ready. */
  readonly queueMs: number;
  /** Waiting for a replica to start. */
  readonly startMs: number;
  readonly runMs: number | null;
};

export type OnRunEnd = (response: RunResponse, timing: RunTiming) => void;

/** THE path of a run: every mode hands it to a replica here and learns its one outcome here. */
export class Executor {
  readonly #journal: Journal;
  readonly #clock: Clock;

  constructor(journal: Journal, clock: Clock) {
    this.#journal = journal;
    this.#clock = clock;
  }

  /** Starts a run; `onEnd` is called exactly once. */
  execute(request: RunRequest, onEnd: OnRunEnd): LiveRun {
    const run = new LiveRun(request, this.#clock, this.#journal, onEnd);
    request.target.pool.submit(run.call);
    return run;
  }
}

/** A run under way. */
export class LiveRun implements CallReader {
  readonly call: Call;
  readonly #request: RunRequest;
  readonly #clock: Clock;
  readonly #journal: Journal;
  readonly #onEnd: OnRunEnd;
  readonly #createdAt: number;

  constructor(request: RunRequest, clock: Clock, journal: Journal, onEnd: OnRunEnd) {
    this.#request = request;
    this.#clock = clock;
    this.#journal = journal;
    this.#onEnd = onEnd;
    this.#createdAt = clock.now();
    this.call = new Call(request.id, request.functionName, request.body, this);
  }

  /** Stops the run; its reader learns at once, the slot is free when the code has stopped. */
  cancel(): void {
    this.#request.target.pool.abandon(this.call, { kind: "cancelled" });
  }

  /** The caller has gone: a run that still waits is dropped, one that runs goes on. */
  forsake(): void {
    if (this.call.holder === null) this.cancel();
  }

  onStream(): void {
    this.#request.target.pool.abandon(this.call, { kind: "streamed", runMs: 0 });
  }

  onEnd(outcome: Outcome): void {
    const { id, isBare } = this.#request;
    const response = respond(id, outcome, isBare);
    const now = this.#clock.monotonic();
    const timing = this.#timing(outcome, now);
    this.#onEnd(response, timing);
    this.#journal.add(this.#record(outcome, response, timing, now));
  }

  #timing(outcome: Outcome, now: number): RunTiming {
    const { enqueuedAt, handedAt, coldMs } = this.call;
    return {
      queueMs: Math.max(0, (handedAt || now) - enqueuedAt - coldMs),
      startMs: coldMs,
      runMs: "runMs" in outcome ? outcome.runMs : null,
    };
  }

  #record(outcome: Outcome, { status, error }: RunResponse, timing: RunTiming, now: number): Run {
    const { id, target, functionName, ip } = this.#request;
    const { queueMs, startMs, runMs } = timing;
    const { enqueuedAt, handedAt, holder } = this.call;
    const responseMs = now - enqueuedAt;
    const completedAt = this.#createdAt + Math.round(responseMs);
    const isCancelled = outcome.kind === "cancelled";
    const state: RunState = isCancelled ? "cancelled" : status < 400 ? "success" : "failure";
    return {
      id,
      appNumber: target.appNumber,
      versionId: target.versionId,
      functionName,
      method: "POST",
      isAsync: false,
      state,
      statusCode: isCancelled ? null : status,
      attempt: 1,
      createdAt: this.#createdAt,
      startedAt: handedAt ? this.#createdAt + Math.round(handedAt - enqueuedAt) : null,
      completedAt,
      updatedAt: completedAt,
      replicaId: holder?.id ?? null,
      replicaStartedAt: holder?.readyAt ?? null,
      ip,
      webhookEndpoint: null,
      webhookState: "none",
      errorCode: error?.code ?? null,
      errorMessage: error?.message ?? null,
      errorTraceback: outcome.kind === "raised" ? outcome.traceback : null,
      queueMs: queueMs + startMs,
      runMs,
      responseMs,
    };
  }
}
