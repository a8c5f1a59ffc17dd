import { Batches } from "./batches.ts";
import type { Source } from "./batch-upload.ts";
import { type Arguments, type CallOptions, prepareCall, type QueueOptions } from "./call.ts";
import { MillraceError } from "./errors.ts";
import { argumentsOf, type EachOptions, mapOver, type MapOptions } from "./map.ts";
import { LONG_WAIT_SECONDS, patient, Run, type WaitOptions } from "./run.ts";
import { type ReadOptions, RunStream } from "./stream.ts";
import { refusalIn, type RunResult, Transport, type TransportOptions } from "./transport.ts";

export { Batch, Batches } from "./batches.ts";
export type { BatchLine, BatchOptions, BatchRecord, BatchResult, ResultOptions, Source } from "./batches.ts";
export type { EachOptions, MapOptions } from "./map.ts";
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
  /** Batches of lines of these apps. */
  readonly batches: Batches;
  readonly #transport: Transport;

  constructor(options: TransportOptions) {
    this.#transport = new Transport(options);
    this.batches = new Batches(this.#transport);
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

  /** Has a function run in the background; the run's `get` gives what it returns. */
  async spawn<T = unknown>(
    app: string,
    args: Arguments = {},
    options: CallOptions & QueueOptions = {},
  ): Promise<Run<T>> {
    return await this.app(app).spawn<T>(args, options);
  }

  /** Calls a function once for each input, and yields what it returned. Nothing is sent before the loop begins. */
  map<T = unknown>(app: string, inputs: Source<Arguments>, options: MapOptions = {}) {
    return this.app(app).map<T>(inputs, options);
  }

  /** The same for rows of values, each for the parameter at its place. */
  starmap<T = unknown>(
    app: string,
    parameters: readonly string[],
    rows: Source<readonly unknown[]>,
    options: MapOptions = {},
  ) {
    return this.app(app).starmap<T>(parameters, rows, options);
  }

  /** Calls a function once for each input, and waits until all calls have ended. */
  async forEach(app: string, inputs: Source<Arguments>, options: EachOptions = {}): Promise<void> {
    await this.app(app).forEach(inputs, options);
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

  /** The same as `runAsync`, by the name that other services have for it. */
  async spawn<T = unknown>(args: Arguments = {}, options: CallOptions & QueueOptions = {}): Promise<Run<T>> {
    return await this.runAsync<T>(args, options);
  }

  /**
   * Calls a function once for each input, as one batch, and yields what it returned. The calls begin when all inputs have
   * been sent. One that fails throws its error; leaving the loop cancels those that have not ended.
   */
  map<T = unknown>(inputs: Source<Arguments>, options: MapOptions = {}): AsyncGenerator<T, void, void> {
    return mapOver<T>(this.#transport, this.name, inputs, options);
  }

  /** The same for rows of values, each for the parameter at its place. */
  starmap<T = unknown>(
    parameters: readonly string[],
    rows: Source<readonly unknown[]>,
    options: MapOptions = {},
  ): AsyncGenerator<T, void, void> {
    return this.map<T>(argumentsOf(parameters, rows), options);
  }

  /** Calls a function once for each input, and waits until all calls have ended. */
  async forEach(inputs: Source<Arguments>, options: EachOptions = {}): Promise<void> {
    const { ignoreExceptions: returnExceptions = false, ...rest } = options;
    const results = this.map(inputs, { ...rest, ordered: false, returnExceptions });
    while (!(await results.next()).done);
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
