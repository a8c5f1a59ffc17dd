import { ConnectionLost, errorIn, foreignError, isTransient, MillraceError } from "./errors.ts";
import { SseParser } from "./sse.ts";

/** The address of a service, and how to talk to it. */
export type TransportOptions = {
  /** The address of the app endpoints, such as `http://127.0.0.1:4000`. */
  readonly url: string;
  /** The project's id, `p-…`. */
  readonly project: string;
  /** Without one only public apps can be called, and a stream that breaks cannot be resumed. */
  readonly token?: string;
  /** In place of the global `fetch`. */
  readonly fetch?: typeof fetch;
  /** The first wait before a retry is up to this, the next up to twice that, and so on. */
  readonly backoffMs?: number;
};

type Sending = {
  readonly method?: "GET" | "POST";
  readonly headers?: Readonly<Record<string, string | null>>;
  readonly body?: string;
  readonly signal?: AbortSignal | undefined;
};

const MAX_BACKOFF_MS = 10_000;
const CANCEL_MS = 5_000;
/** Refusals of the service are smaller. */
const MAX_REFUSAL_BYTES = 64 * 1024;
/** A longer `Retry-After` is cut to this. */
const MAX_RETRY_AFTER_SECONDS = 60;

/** Requests to one project's apps. Failures below HTTP are `ConnectionLost`, or the reason of the signal. */
export class Transport {
  readonly hasToken: boolean;
  readonly #base: string;
  readonly #token: string | undefined;
  readonly #fetch: typeof fetch;
  readonly #backoffMs: number;

  constructor({ url, project, token, fetch: own, backoffMs = 200 }: TransportOptions) {
    this.#base = `${url.replace(/\/+$/, "")}/v4/${encodeURIComponent(project)}`;
    this.#token = token;
    this.hasToken = token !== undefined;
    // Called without an object: browsers accept no other than their own.
    this.#fetch = own ?? ((input, init) => fetch(input, init));
    this.#backoffMs = backoffMs;
  }

  /** Sends a request to an app; `path` follows the app's name. */
  async send(app: string, path: string, sending: Sending = {}): Promise<Response> {
    const { method = "GET", headers = {}, body, signal } = sending;
    const all = new Headers();
    for (const [name, value] of Object.entries(headers)) if (value !== null) all.set(name, value);
    if (body !== undefined) all.set("content-type", "application/json");
    return await this.fetch(app, path, { method, headers: all, body: body ?? null, signal: signal ?? null });
  }

  /** Sends any request to an app, with the token. */
  async fetch(app: string, path: string, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.#token !== undefined) headers.set("authorization", `Bearer ${this.#token}`);
    try {
      return await this.#fetch(`${this.#base}/${encodeURIComponent(app)}/${path}`, { ...init, headers });
    } catch (error) {
      throw lost(error, init.signal ?? undefined, null);
    }
  }

  /** Waits before try number `tries`, from 1, after an error. */
  async pause(tries: number, error: MillraceError | null, signal?: AbortSignal): Promise<void> {
    const limitMs = Math.min(this.#backoffMs * 2 ** (tries - 1), MAX_BACKOFF_MS);
    const askedMs = Math.min(error?.retryAfterSeconds ?? 0, MAX_RETRY_AFTER_SECONDS) * 1000;
    await sleep(askedMs + Math.random() * limitMs, signal);
  }

  /** Cancels a run; false if it has already ended. */
  async cancel(app: string, runId: string): Promise<boolean> {
    return await this.cancelAt(app, `runs/${encodeURIComponent(runId)}/cancel`, "run_finished");
  }

  /** Cancels what a path names; false if it has already ended, which the service says with that code. */
  async cancelAt(app: string, path: string, endedCode: string): Promise<boolean> {
    const signal = AbortSignal.timeout(CANCEL_MS);
    try {
      await jsonOf(await this.send(app, path, { method: "POST", signal }));
      return true;
    } catch (error) {
      if (error instanceof MillraceError && error.code === endedCode) return false;
      throw error;
    }
  }

  /** Retries work that failed with a transient error, up to this often. */
  async retrying<T>(retries: number, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await work();
      } catch (error) {
        if (tries > retries || !isTransient(error)) throw error;
        await this.pause(tries, error, signal);
      }
    }
  }
}

async function textOf(response: Response, signal?: AbortSignal): Promise<string> {
  try {
    return await response.text();
  } catch (error) {
    throw lost(error, signal, response.headers.get("x-request-id"));
  }
}

/** The whole body as JSON; throws the error that it holds, or for one that is not JSON. */
export async function jsonOf(response: Response, signal?: AbortSignal): Promise<unknown> {
  const text = await textOf(response, signal);
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw foreignError(response, text);
  }
  const error = errorIn(body, response);
  if (error) throw error;
  return body;
}

/** The service's own refusal of a request to an app's server, read from a copy; null if the server answered. */
export async function refusalIn(response: Response): Promise<MillraceError | null> {
  const { status, headers } = response;
  const isJson = headers.get("content-type")?.startsWith("application/json") ?? false;
  if (status < 400 || !isJson || !(Number(headers.get("content-length")) <= MAX_REFUSAL_BYTES)) return null;
  const body: unknown = await response
    .clone()
    .json()
    .catch(() => null);
  const error = errorIn(body, response);
  return error?.requestId === headers.get("x-request-id") ? error : null;
}

/** The error for a broken connection: the reason of the signal, if the reader ended it. */
export function lost(error: unknown, signal: AbortSignal | undefined, requestId: string | null): unknown {
  if (signal?.aborted) return signal.reason;
  if (error instanceof MillraceError) return error;
  const message = `The connection broke: ${String(error)}`;
  return new ConnectionLost({ code: "connection_lost", message, requestId, cause: error });
}

async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** What a function returned. */
export type RunResult<T = unknown> = {
  readonly runId: string;
  /** The value; for a function that streams, a list of the texts that it yielded. */
  readonly result: T;
  /** Inside the function; null if the answer does not say. */
  readonly runTimeMs: number | null;
  /** 200, or the `status_code` that the function set, which is no error here. */
  readonly status: number;
};

/** The answer to a call: a stream that begins, a result, or a run that continues. */
export type Answer<T = unknown> =
  | { readonly kind: "stream"; readonly runId: string | null; readonly response: Response }
  | { readonly kind: "result"; readonly result: RunResult<T> }
  | { readonly kind: "run"; readonly runId: string };

/** Reads an answer; throws if it is an error. */
export async function answerOf<T>(response: Response, signal?: AbortSignal): Promise<Answer<T>> {
  const runId = response.headers.get("x-request-id");
  if (isEventStream(response)) return { kind: "stream", runId, response };
  return await plainAnswerOf(response, signal);
}

/** The same for a stored answer: a stream is read to its end. */
export async function storedAnswerOf<T>(response: Response, signal?: AbortSignal): Promise<Answer<T>> {
  if (!isEventStream(response)) return await plainAnswerOf(response, signal);
  const text = await textOf(response, signal);
  const messages = new SseParser().feed(new TextEncoder().encode(text));
  return { kind: "result", result: resultOf(response, messages.map(({ data }) => data) as T) };
}

async function plainAnswerOf<T>(response: Response, signal?: AbortSignal): Promise<Answer<T>> {
  const { status } = response;
  if ([204, 205, 304].includes(status)) return { kind: "result", result: resultOf(response, null as T) };
  const body = await jsonOf(response, signal);
  if (typeof body !== "object" || body === null || !("run_id" in body)) {
    throw foreignError(response, JSON.stringify(body));
  }
  const runId = String(body.run_id);
  if (!("result" in body)) return { kind: "run", runId };
  const runTimeMs = "run_time_ms" in body ? Number(body.run_time_ms) : null;
  return { kind: "result", result: { runId, result: body.result as T, runTimeMs, status } };
}

function resultOf<T>({ headers, status }: Response, result: T): RunResult<T> {
  const [, runMs] = /\brun;dur=([\d.]+)/.exec(headers.get("server-timing") ?? "") ?? [];
  const runTimeMs = runMs === undefined ? null : Number(runMs);
  return { runId: headers.get("x-request-id") ?? "", result, runTimeMs, status };
}

function isEventStream({ headers }: Response): boolean {
  return headers.get("content-type")?.startsWith("text/event-stream") ?? false;
}
