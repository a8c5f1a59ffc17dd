import { type BatchOptions, type Source, uploadLines } from "./batch-upload.ts";
import { type Arguments, queueQuery, type QueueOptions } from "./call.ts";
import { errorOf, foreignError, isTransient, type MillraceError } from "./errors.ts";
import { jsonOf, lost, type Transport } from "./transport.ts";

export type { BatchOptions, Source } from "./batch-upload.ts";

/** A line of a batch: what it calls the function with, an id of your own, and what it asks of the queue. */
export type BatchLine = QueueOptions & {
  readonly input?: Arguments;
  readonly id?: string | number;
};

/** A batch's record: docs/batches.md says what its members mean. */
export type BatchRecord = {
  readonly id: string;
  readonly functionName: string;
  readonly status: "uploading" | "running" | "cancelling" | "completed" | "cancelled";
  /** What the app's queue does; null once the batch has ended. While it is `draining`, no further line begins. */
  readonly queue: "open" | "paused" | "draining" | null;
  readonly total: number;
  readonly waiting: number;
  readonly running: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
  /** Lines that end in a second. */
  readonly rate: number;
  readonly bytes: number;
  readonly createdAt: string;
  readonly uploadedAt: string | null;
  readonly completedAt: string | null;
  readonly webhookEndpoint: string | null;
  readonly retryOf: string | null;
};

/** How a line has ended: with what the function returned, or with an error. */
export type BatchResult<T = unknown> = {
  /** The line's own id; null if it has none. */
  readonly id: string | number | null;
  /** Its place in the input, from 0. */
  readonly index: number;
  readonly runId: string | null;
  readonly status: "success" | "failure" | "cancelled";
  /** Undefined if there is an error; for a function that streams, a list of what it yielded. */
  readonly result: T | undefined;
  /** `base64`: the result is a string that stands for bytes, which a server app has answered with. */
  readonly encoding: "base64" | null;
  readonly error: MillraceError | null;
};

export type ResultOptions = {
  /** `input`, in the order of the lines, or `finished`, as they end. */
  readonly order?: "input" | "finished";
  /** Whether to wait for lines that have not ended; true if not given. */
  readonly wait?: boolean;
  readonly signal?: AbortSignal;
};

type ListOptions = { readonly signal?: AbortSignal };
type ResultLine = {
  readonly id?: string | number | null;
  readonly index: number;
  readonly run_id: string | null;
  readonly status: BatchResult["status"];
  readonly result?: unknown;
  readonly encoding?: "base64";
  readonly error?: { readonly code: string; readonly message: string };
};

/** Asking again is harmless, so it needs no option. */
const RETRIES = 8;
/** The service sends an empty line every 15 s to a reader that waits. */
const IDLE_MS = 45_000;

/** Batches of lines, each of which is a run of a function in the background. */
export class Batches {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Uploads a batch as its lines come: when this resolves, the service has all of them on disk. */
  async create<T = unknown>(
    app: string,
    lines: Source<BatchLine>,
    options: BatchOptions = {},
  ): Promise<Batch<T>> {
    const batch = await this.upload<T, BatchLine>(app, lines, lineText, options);
    if (!batch) throw errorOf({ code: "bad_request", message: "The batch has no lines." });
    return batch;
  }

  /** A batch by its id. */
  find<T = unknown>(app: string, id: string): Batch<T> {
    return new Batch<T>(this.#transport, app, id);
  }

  /** The app's batches, the newest first. */
  async *list(app: string, { signal }: ListOptions = {}): AsyncGenerator<BatchRecord, void, void> {
    let nextToken = "";
    do {
      const path = `batches?pageSize=100&nextToken=${encodeURIComponent(nextToken)}`;
      const page = (await asked(this.#transport, app, path, signal)) as Page;
      yield* page.items;
      nextToken = page.nextToken;
    } while (nextToken !== "");
  }

  /** @internal The same as `create` with lines of any kind; null if there are none. */
  async upload<T, Line>(
    app: string,
    lines: Source<Line>,
    textOf: (line: Line) => string,
    options: BatchOptions,
  ): Promise<Batch<T> | null> {
    const record = (await uploadLines(this.#transport, app, lines, textOf, options)) as BatchRecord | null;
    return record && this.find<T>(app, record.id);
  }
}

type Page = { readonly items: readonly BatchRecord[]; readonly nextToken: string };

/** A batch of an app, in progress or ended. */
export class Batch<T = unknown> {
  readonly id: string;
  readonly app: string;
  readonly #transport: Transport;

  constructor(transport: Transport, app: string, id: string) {
    this.#transport = transport;
    this.app = app;
    this.id = id;
  }

  /** How far it is. */
  async record({ signal }: ListOptions = {}): Promise<BatchRecord> {
    return (await asked(this.#transport, this.app, this.#path(), signal)) as BatchRecord;
  }

  /** The result of each line, once, however often the connection breaks. Leaving the loop does not cancel the batch. */
  async *results(options: ResultOptions = {}): AsyncGenerator<BatchResult<T>, void, void> {
    const { order = "input", wait = true, signal } = options;
    const query = new URLSearchParams({ order, wait: String(wait) });
    let count = 0;
    for (let failures = 0; ;) {
      const before = count;
      try {
        for await (const line of this.#lines(`/results?${query.toString()}`, signal)) {
          count += 1;
          query.set("after", String(order === "input" ? line.index : count));
          yield resultOf<T>(line);
        }
        return;
      } catch (error) {
        failures = count > before ? 1 : failures + 1;
        if (failures > RETRIES || !isTransient(error)) throw error;
        await this.#transport.pause(failures, error, signal);
      }
    }
  }

  /** Ends all lines that have not ended; false if the batch had ended, or was being cancelled. */
  async cancel(): Promise<boolean> {
    return await this.#transport.cancelAt(this.app, this.#path("/cancel"), "batch_finished");
  }

  /** Runs the lines that have failed again, as a new batch. */
  async retry({ signal }: ListOptions = {}): Promise<Batch<T>> {
    const sending = { method: "POST", signal } as const;
    const response = await this.#transport.send(this.app, this.#path("/retry"), sending);
    const { id } = (await jsonOf(response, signal)) as BatchRecord;
    return new Batch<T>(this.#transport, this.app, id);
  }

  #path(what = ""): string {
    return `batches/${encodeURIComponent(this.id)}${what}`;
  }

  /** The lines of one answer. */
  async *#lines(what: string, signal?: AbortSignal): AsyncGenerator<ResultLine, void, void> {
    const connection = new AbortController();
    const leave = (): void => connection.abort(signal?.reason);
    signal?.addEventListener("abort", leave);
    let idle = setTimeout(() => connection.abort(), IDLE_MS);
    try {
      signal?.throwIfAborted();
      const sending = { signal: connection.signal };
      const response = await this.#transport.send(this.app, this.#path(what), sending);
      if (response.status !== 200) throw foreignError(response, JSON.stringify(await jsonOf(response)));
      const body = response.body ?? new Blob([]).stream();
      const reader = body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        clearTimeout(idle);
        idle = setTimeout(() => connection.abort(), IDLE_MS);
        const { done, value } = await reader.read();
        if (done) return;
        const lines = (rest + value).split("\n");
        rest = lines.pop() ?? "";
        // How long the reader of the results takes is no silence of the service.
        clearTimeout(idle);
        for (const line of lines) if (line !== "") yield JSON.parse(line) as ResultLine;
      }
    } catch (error) {
      throw lost(error, signal, this.id);
    } finally {
      clearTimeout(idle);
      signal?.removeEventListener("abort", leave);
      connection.abort();
    }
  }
}

async function asked(
  transport: Transport,
  app: string,
  path: string,
  signal?: AbortSignal,
): Promise<unknown> {
  return await transport.retrying(RETRIES, signal, async () => {
    return await jsonOf(await transport.send(app, path, { signal }), signal);
  });
}

function resultOf<T>(line: ResultLine): BatchResult<T> {
  const { id = null, index, run_id: runId, status, result, encoding = null, error } = line;
  return {
    id,
    index,
    runId,
    status,
    result: result as T | undefined,
    encoding,
    error: error ? errorOf({ ...error, requestId: runId }) : null,
  };
}

function lineText({ id, input = {}, tags = [], ...asked }: BatchLine): string {
  return JSON.stringify({
    id,
    input,
    ...Object.fromEntries(queueQuery(asked)),
    ...(tags.length > 0 && { tag: tags }),
  });
}
