import { MillraceError } from "./errors.ts";
import { type ReadOptions, RunStream } from "./stream.ts";
import { jsonOf, type RunResult, storedAnswerOf, type Transport } from "./transport.ts";

export type WaitOptions = {
  readonly signal?: AbortSignal;
  /** After it, `StillRunning` is thrown; without it the wait is unlimited. */
  readonly timeoutSeconds?: number;
};

/** One attempt of an async run. */
export type RunAttempt = {
  readonly number: number;
  readonly startedAt: string | null;
  readonly completedAt: string | null;
  readonly error: { readonly code: string; readonly message: string } | null;
};

/** How far a run says that it is: a fraction from 0 to 1, and what it does. */
export type RunProgress = {
  readonly fraction: number | null;
  readonly message: string | null;
  readonly at: string;
};

/** A run's record, in part: docs/management.md has all of it. */
export type RunRecord = {
  readonly id: string;
  /** Of a server app, the path. */
  readonly functionName: string;
  readonly method: string;
  readonly async: boolean;
  readonly websocket: boolean;
  readonly status: "queued" | "running" | "success" | "failure" | "cancelled";
  readonly statusCode: number | null;
  readonly attempt: number;
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly completedAt: string | null;
  readonly webhookStatus: "none" | "pending" | "delivered" | "failed";
  readonly error: { readonly code: string; readonly message: string } | null;
  /** What the app received and sent, in bodies, chunks or WebSocket frames. Null if no replica got the call. */
  readonly requestBytes: number | null;
  readonly responseBytes: number | null;
  /** Of a batched function: how many calls left for the replica together, and why then. */
  readonly batchSize?: number;
  readonly batchReason?: "idle" | "full" | "window" | "deadline" | "drain";
  /** Of a run on a replica with GPUs: its time inside the function, times the GPUs. */
  readonly gpuTimeMs?: number;
  /** Of a run whose answer says what a model did. */
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  /** Of a run that waits for its time: when it may begin. */
  readonly dueAt?: string;
  /** Of a run that waits for its turn: how many it is from the front, from 1. */
  readonly position?: number;
  /** The same, if enough is known of how fast the runs before it begin: when it will begin. */
  readonly expectedStartAt?: string;
  /** What its caller asked of the queue: seconds of head start, labels, attempts, and until when it must begin and end. */
  readonly priority?: number;
  readonly tags?: readonly string[];
  readonly maxAttempts?: number;
  readonly concurrencyKey?: string;
  readonly fairnessKey?: string;
  readonly startBy?: string;
  readonly endBy?: string;
  /** Of a run that belongs to a trace: its id. */
  readonly traceId?: string;
  /** Of a run that was tried again: all attempts, the first one first. */
  readonly attempts?: readonly RunAttempt[];
  /** Of a run that has reported its progress: what it said last. */
  readonly progress?: RunProgress;
  /** Of a run that has made a checkpoint: when, after how many chunks, and in which attempt. */
  readonly checkpoint?: { readonly at: string; readonly sent: number; readonly attempt: number };
  /** Once it has ended. */
  readonly result?: unknown;
};

/** Shorter than most proxies keep a silent connection. */
export const LONG_WAIT_SECONDS = 50;
/** Beyond the time that was asked for: then the connection counts as broken. */
const GRACE_SECONDS = 30;
/** Asking again is harmless, so it needs no option. */
const RETRIES = 8;

/** A run of an app, in progress or ended. */
export class Run<T = unknown> {
  readonly id: string;
  readonly app: string;
  readonly #transport: Transport;

  constructor(transport: Transport, app: string, id: string) {
    this.#transport = transport;
    this.app = app;
    this.id = id;
  }

  /** Waits for what the function returned; throws the error that it ended with, or `StillRunning`. */
  async wait({ signal, timeoutSeconds = Infinity }: WaitOptions = {}): Promise<RunResult<T>> {
    const deadline = performance.now() + timeoutSeconds * 1000;
    for (;;) {
      const askedAt = performance.now();
      const waitSeconds = Math.ceil(Math.min(Math.max(deadline - askedAt, 0) / 1000, LONG_WAIT_SECONDS));
      const result = await this.#ask(waitSeconds, signal);
      if (result) return result;
      if (performance.now() >= deadline) throw new StillRunning(this);
      // If a proxy drops `Prefer`, asking again at once would be a busy loop.
      if (performance.now() - askedAt < 1000) await this.#transport.pause(1, null, signal);
    }
  }

  /** Waits like `wait`, and gives the value alone. */
  async get(options: WaitOptions = {}): Promise<T> {
    return (await this.wait(options)).result;
  }

  /** The same as `wait` without waiting; null while the run is in progress. */
  async result(options: Pick<WaitOptions, "signal"> = {}): Promise<RunResult<T> | null> {
    return await this.#ask(0, options.signal);
  }

  /** Its current state. */
  async record(options: Pick<WaitOptions, "signal"> = {}): Promise<RunRecord> {
    const { signal } = options;
    return await this.#transport.retrying(RETRIES, signal, async () => {
      return (await jsonOf(await this.#get("", {}, signal), signal)) as RunRecord;
    });
  }

  /** Stops it; false if it had already ended. */
  async cancel(): Promise<boolean> {
    return await this.#transport.cancel(this.app, this.id);
  }

  /** Everything that it yields, from the beginning. Leaving this stream does not cancel the run. */
  stream(options: ReadOptions = {}): RunStream {
    const open = async () => await Promise.resolve({ kind: "run" as const, runId: this.id });
    return new RunStream(this.#transport, this.app, open, { ...options, isOwner: false });
  }

  async #ask(waitSeconds: number, signal?: AbortSignal): Promise<RunResult<T> | null> {
    const headers = { prefer: waitSeconds > 0 ? `wait=${waitSeconds}` : null };
    return await this.#transport.retrying(RETRIES, signal, async () => {
      const response = await this.#get("/result", headers, patient(waitSeconds, signal));
      const answer = await storedAnswerOf<T>(response, signal);
      return answer.kind === "result" ? answer.result : null;
    });
  }

  async #get(what: string, headers: Record<string, string | null>, signal?: AbortSignal): Promise<Response> {
    const path = `runs/${encodeURIComponent(this.id)}${what}`;
    return await this.#transport.send(this.app, path, { headers, signal });
  }
}

/** The wait is over, the run is not: it continues, and `run` gives access to it. */
export class StillRunning<T = unknown> extends MillraceError {
  readonly run: Run<T>;

  constructor(run: Run<T>) {
    super({ code: "still_running", message: `The run ${run.id} is not over yet.`, requestId: run.id });
    this.run = run;
  }
}

/** Aborts with the reader, or when an answer that may take so long has not come. */
export function patient(waitSeconds: number, signal?: AbortSignal): AbortSignal {
  const limit = AbortSignal.timeout((waitSeconds + GRACE_SECONDS) * 1000);
  return signal ? AbortSignal.any([signal, limit]) : limit;
}
