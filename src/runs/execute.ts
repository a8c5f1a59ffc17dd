import type { Clock } from "../kit/clock.ts";
import type { Outcome } from "../model/outcome.ts";
import type { Run, RunState } from "../model/run.ts";
import { Call } from "../replicas/call.ts";
import type { CallReader, Chunk } from "../replicas/call.ts";
import { INITIAL_CREDIT_BYTES } from "../replicas/frames.ts";
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

/** How a run ended. For a stream that failed on the way the response is what it would have been before it. */
export type RunEnd = {
  readonly outcome: Outcome;
  readonly response: RunResponse;
  readonly timing: RunTiming;
};

/** Who waits for a run. */
export type RunReader = {
  /** The function gave an iterator: chunks follow, then the end. */
  onStream(): void;
  /** Each chunk's bytes have to be granted again, or the generator waits. */
  onChunk(chunk: Chunk): void;
  /** Exactly once. */
  onEnd(end: RunEnd): void;
};

/** A quarter of the credit a generator starts with: it never waits for what is held back here. */
const GRANT_BYTES = INITIAL_CREDIT_BYTES / 4;

/** THE path of a run: every mode hands it to a replica here and learns its one outcome here. */
export class Executor {
  readonly #journal: Journal;
  readonly #clock: Clock;
  /** A set, not a map by id: every call pays for a key that only a cancel would use. */
  readonly #live = new Set<LiveRun>();

  constructor(journal: Journal, clock: Clock) {
    this.#journal = journal;
    this.#clock = clock;
  }

  /** Starts a run; its reader may learn its end before this returns. */
  execute(request: RunRequest, reader: RunReader): LiveRun {
    const run: LiveRun = new LiveRun(request, this.#clock, reader, (record) => {
      this.#live.delete(run);
      this.#journal.add(record);
    });
    this.#live.add(run);
    request.target.pool.submit(run.call);
    return run;
  }

  /** Whether that run of the app has ended just now, so that its record is not stored yet. */
  hasEnded(appNumber: number, id: string): boolean {
    return this.#journal.holds(appNumber, id);
  }

  /** The run with that id, while it is under way. */
  find(id: string): LiveRun | undefined {
    for (const run of this.#live) if (run.request.id === id) return run;
    return undefined;
  }
}

/** A run under way. */
export class LiveRun implements CallReader {
  readonly call: Call;
  readonly request: RunRequest;
  readonly #clock: Clock;
  readonly #reader: RunReader;
  readonly #onRecord: (record: Run) => void;
  readonly #createdAt: number;
  #owedBytes = 0;

  constructor(request: RunRequest, clock: Clock, reader: RunReader, onRecord: (record: Run) => void) {
    this.request = request;
    this.#clock = clock;
    this.#reader = reader;
    this.#onRecord = onRecord;
    this.#createdAt = clock.now();
    this.call = new Call(request.id, request.functionName, request.body, this);
  }

  /** Stops the run; its reader learns at once, the slot is free when the code has stopped. */
  cancel(): void {
    this.request.target.pool.abandon(this.call, { kind: "cancelled" });
  }

  /** The caller has gone: a run that still waits is dropped, one that runs goes on. */
  forsake(): void {
    if (this.call.holder === null) this.cancel();
  }

  /** The reader has taken so many bytes of chunks: the generator may send as many more. */
  grant(bytes: number): void {
    this.#owedBytes += bytes;
    // Told in large amounts: a word per message would cost more than the message.
    if (this.#owedBytes < GRANT_BYTES) return;
    this.call.holder?.grant(this.call, this.#owedBytes);
    this.#owedBytes = 0;
  }

  /** Its spans as far as they are known. */
  timing(): RunTiming {
    return this.#timing(this.#clock.monotonic(), null);
  }

  onStream(): void {
    this.#reader.onStream();
  }

  onChunk(chunk: Chunk): void {
    this.#reader.onChunk(chunk);
  }

  onEnd(outcome: Outcome): void {
    const { id, isBare } = this.request;
    const response = respond(id, outcome, isBare);
    const now = this.#clock.monotonic();
    const timing = this.#timing(now, "runMs" in outcome ? outcome.runMs : null);
    this.#reader.onEnd({ outcome, response, timing });
    this.#onRecord(this.#record(outcome, response, timing, now));
  }

  #timing(now: number, runMs: number | null): RunTiming {
    const { enqueuedAt, handedAt, coldMs } = this.call;
    return { queueMs: Math.max(0, (handedAt || now) - enqueuedAt - coldMs), startMs: coldMs, runMs };
  }

  #record(outcome: Outcome, { status, error }: RunResponse, timing: RunTiming, now: number): Run {
    const { id, target, functionName, ip } = this.request;
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
