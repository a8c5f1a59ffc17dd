import { SseParser } from "./sse.ts";
import { jsonOf, textOf } from "./transport.ts";
import { foreignError } from "./errors.ts";

/** What a function returned. */
export type RunResult<T = unknown> = {
  readonly runId: string;
  /** The value; of a function that streams a list of the texts that it yielded. */
  readonly result: T;
  /** Inside the function; null where the answer does not say. */
  readonly runTimeMs: number | null;
  /** 200, or what the function set by `status_code`: that is no error here. */
  readonly status: number;
};

/** What a call has come to: a stream that begins, a result, or a run that goes on. */
export type Answer<T = unknown> =
  | { readonly kind: "stream"; readonly runId: string | null; readonly response: Response }
  | { readonly kind: "result"; readonly result: RunResult<T> }
  | { readonly kind: "run"; readonly runId: string };

/** Reads an answer; throws the error that it is. */
export async function answerOf<T>(response: Response, signal?: AbortSignal): Promise<Answer<T>> {
  const runId = response.headers.get("x-request-id");
  if (isEventStream(response)) return { kind: "stream", runId, response };
  return await plainAnswerOf(response, signal);
}

/** The same for an answer that is stored: a stream is read to its end. */
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
