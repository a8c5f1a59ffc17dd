import { type Arguments, type CallOptions, prepareCall, type QueueOptions } from "./call.ts";
import { MillraceError } from "./errors.ts";
import { LONG_WAIT_SECONDS, patient, Run, type WaitOptions } from "./run.ts";
import { type ReadOptions, RunStream } from "./stream.ts";
import { refusalIn, type RunResult, Transport, type TransportOptions } from "./transport.ts";

export type { RunResult } from "./transport.ts";
export type { Arguments, CallOptions, QueueOptions } from "./call.ts";
export {
  AppFailed,
  Busy,
  Cancelled,
  ConnectionLost,
  InvalidArguments,
  MillraceError,
  NotFound,
  NotReady,
  TimedOut,
  Unauthorized,
} from "./errors.ts";
export { Run, StillRunning } from "./run.ts";
export type { RunAttempt, RunProgress, RunRecord, WaitOptions } from "./run.ts";
export { RunStream } from "./stream.ts";
export type { ReadOptions } from "./stream.ts";
export type { TransportOptions } from "./transport.ts";
export { InvalidWebhook, verifyWebhook } from "./webhook.ts";
export type { Delivery, ReceivedWebhook } from "./webhook.ts";

/** The apps of one project of a Millrace service. */
export class Millrace {
  readonly #transport: Transport;

  constructor(options: TransportOptions) {
    this.#transport = new Transport(options);
  }

  /** One app, whether or not it exists. */
  app(name: string): App {
    return new App(this.#transport, name);
  }

  /** Calls a function and waits for what it returns. */
  async run<T = unknown>(
    app: string,
    args: Arguments = {},
    options: CallOptions & WaitOptions = {},
  ): Promise<RunResult<T>> {
    return await this.app(app).run<T>(args, options);
  }

  /** Has a function run in the background. */
  async runAsync<T = unknown>(
    app: string,
    args: Arguments = {},
    options: CallOptions & QueueOptions = {},
  ): Promise<Run<T>> {
    return await this.app(app).runAsync<T>(args, options);
  }

  /** Calls a function and yields its chunks as they come. Nothing is sent before the stream is read. */
  stream(app: string, args: Arguments = {}, options: CallOptions & ReadOptions = {}): RunStream {
    return this.app(app).stream(args, options);
  }

  /** Calls a path of an app that is a server. */
  async fetch(app: string, path: string, init: RequestInit = {}): Promise<Response> {
    return await this.app(app).fetch(path, init);
  }
}

/** One app of a project. */
export class App {
  readonly name: string;
  readonly #transport: Transport;

  constructor(transport: Transport, name: string) {
    this.#transport = transport;
    this.name = name;
  }

  /** Calls a function and waits for what it returns. */
  async run<T = unknown>(
    args: Arguments = {},
    options: CallOptions & WaitOptions = {},
  ): Promise<RunResult<T>> {
    const { signal, timeoutSeconds = Infinity, retries = 0, idempotencyKey } = options;
    const deadline = performance.now() + timeoutSeconds * 1000;
    const waitSeconds = Math.ceil(Math.min(Math.max(timeoutSeconds, 0), LONG_WAIT_SECONDS));
    const { hasToken } = this.#transport;
    const isRepeatable = retries > 0 || idempotencyKey !== undefined;
    const headers = {
      prefer: hasToken ? `wait=${waitSeconds}` : null,
      "x-disconnect": signal && !isRepeatable ? "cancel" : null,
    };
    const perform = prepareCall(this.#transport, this.name, args, options, { headers });
    const answer = await perform<T>(() => (hasToken ? patient(waitSeconds, signal) : signal), signal);
    if (answer.kind === "result") return answer.result;
    if (answer.kind === "stream") {
      await answer.response.body?.cancel();
      throw new MillraceError({
        code: "is_stream",
        message: "The function streams: call it with stream().",
        requestId: answer.runId,
      });
    }
    const run = this.find<T>(answer.runId);
    try {
      return await run.wait({ ...options, timeoutSeconds: (deadline - performance.now()) / 1000 });
    } catch (error) {
      // A run with a key or retries continues, as during the first request: it may be asked for again.
      if (signal?.aborted && !isRepeatable) await run.cancel().catch(() => undefined);
      throw error;
    }
  }

  /** Has a function run in the background: when this resolves, the service has it on disk. */
  async runAsync<T = unknown>(
    args: Arguments = {},
    options: CallOptions & QueueOptions = {},
  ): Promise<Run<T>> {
    const { signal } = options;
    const perform = prepareCall(this.#transport, this.name, args, options, { queue: options, headers: {} });
    const answer = await perform(() => patient(0, signal), signal);
    if (answer.kind !== "run") throw new Error("the service did not answer an async call with 202");
    return this.find<T>(answer.runId);
  }

  /** Calls a function and yields its chunks as they come. Nothing is sent before the stream is read. */
  stream(args: Arguments = {}, options: CallOptions & ReadOptions = {}): RunStream {
    const { hasToken } = this.#transport;
    const headers = { accept: "text/event-stream", "x-disconnect": hasToken ? "continue" : null };
    const perform = prepareCall(this.#transport, this.name, args, options, { headers });
    const open = (signal: AbortSignal) => perform(() => signal, options.signal);
    return new RunStream(this.#transport, this.name, open, { ...options, isOwner: true });
  }

  /**
   * Calls a path of an app that is a server, as the global `fetch` would: every status the server answers with is a
   * response. Throws if the service itself refuses the request.
   */
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const response = await this.#transport.fetch(this.name, path.replace(/^\//, ""), init);
    const refusal = await refusalIn(response);
    if (refusal) throw refusal;
    return response;
  }

  /** A run of this app by its id. */
  find<T = unknown>(runId: string): Run<T> {
    return new Run<T>(this.#transport, this.name, runId);
  }
}
