import { isUtf8 } from "node:buffer";
import { type HttpRequest, isServerRun, packRequest, unpackRequest } from "../model/http-request.ts";
import type { LimitsConfig } from "../model/app-config.ts";
import { isFinal, type Payload, type Run, type RunKey } from "../model/run.ts";
import type { LiveRun, RunEnd, ServerRequest, Webhook } from "./live-run.ts";
import { isBodiless, respondError, type RunResponse, STREAM_TYPE, unwrapResult } from "./response.ts";
import { AppError, errorBody } from "../model/errors.ts";
import type { NewDelivery } from "../model/delivery.ts";
import { SseBuffer, type SseMode } from "./sse.ts";
import { allChunks, type Transcript } from "./transcript.ts";

/** The same type, written differently. */
const PLAIN_STREAM_TYPE = "text/event-stream;charset=utf-8";
/** The maximum that is parsed on the event loop; `…/result` gives larger results. */
const MAX_SHOWN_BYTES = 256 * 1024;
const JSON_TYPE = /^application\/(?:[\w.-]{1,100}\+)?json\s*(?:;|$)/i;

/** A request without a waiting caller: its whole response is kept. */
export function storedRequest(head: HttpRequest, body: Buffer, limits: LimitsConfig): ServerRequest {
  const input = () => packRequest(head, body);
  return { ...head, body, keptBytes: limits.maxResultBytes, mustKeep: true, input };
}

/** The request of a stored run of a server app; nothing for a function's, or if it was not kept. */
export function httpOf(
  run: { readonly functionName: string },
  input: Uint8Array | null,
  limits: LimitsConfig,
): { readonly http?: ServerRequest } {
  if (!isServerRun(run) || !input?.length) return {};
  const { head, body } = unpackRequest(input);
  return { http: storedRequest(head, body, limits) };
}

/** The response's body; null if a server's was too large to be kept. */
function storedBody({ outcome, response }: RunEnd): Buffer | null {
  return outcome.kind === "responded" ? outcome.body : response.body;
}

/** The type of a stored response. `STREAM_TYPE` itself means that there is a transcript. */
function storedType(type: string | null): string | null {
  return type === STREAM_TYPE ? PLAIN_STREAM_TYPE : type;
}

/** Whether a server calls its response JSON. */
export function hasJsonType({ contentType }: Pick<Payload, "contentType">): boolean {
  return JSON_TYPE.test(contentType ?? "");
}

/** A server's response as JSON; null if it is not JSON, which is checked here for the first time. */
function asJson({ contentType, result }: Payload): Buffer | null {
  if (!result || result.length > MAX_SHOWN_BYTES || !hasJsonType({ contentType })) return null;
  const bytes = Buffer.from(result);
  if (!isUtf8(bytes)) return null;
  try {
    JSON.parse(bytes.toString("utf8"));
  } catch {
    return null;
  }
  return bytes;
}

/** The maximum that is kept of the arguments, and of the response, of a run with a waiting caller. */
const SYNC_BYTES = 64 * 1024;

/** The payload to store of a run that has ended; null if the app wants none. */
export function payloadOf(run: LiveRun, end: RunEnd): Payload | null {
  const { response } = end;
  const { isBare, target } = run.request;
  const hides = { input: !run.isAsync && target.hidden.input, result: !run.isAsync && target.hidden.result };
  const { recordPayloads } = target.config.deployment;
  if (recordPayloads !== "all" && !(run.isAsync && recordPayloads === "async")) return null;
  if (hides.input && hides.result) return null;
  const inputLimit = run.isAsync ? Number.POSITIVE_INFINITY : SYNC_BYTES;
  // A key stands for the whole answer.
  const resultLimit = run.claim?.keyHash ? Number.POSITIVE_INFINITY : inputLimit;
  const input = hides.input ? null : inputOf(run);
  const isStream = hasStreamed(run);
  const result = hides.result || (isStream && !response.error) ? null : storedBody(end);
  const type = isStream ? STREAM_TYPE : storedType(response.contentType);
  return {
    input: input && input.length <= inputLimit ? input : null,
    result: result && result.length <= resultLimit ? result : null,
    contentType: hides.result ? null : type,
    isBare,
    sealedSecret: null,
  };
}

/** A run's arguments; null if the service that executed it for its caller has died: they are lost. */
export function inputOf({ request, isAsync, end }: LiveRun): Buffer | null {
  const isInterrupted = end?.outcome.kind === "refused" && end.outcome.code === "interrupted";
  if (isInterrupted && !isAsync) return null;
  return request.http === undefined ? request.body : request.http.input();
}

/** Whether an ended run's response is still stored. */
export function isKept({ statusCode }: Run, payload: Payload | null): boolean {
  if (!payload) return false;
  return payload.result !== null || payload.contentType === STREAM_TYPE || isBodiless(statusCode ?? 0);
}

/** The JSON of the plain value that a run returned; null if there is none, or it is not kept. */
export function plainValue(run: Run, payload: Payload | null): Buffer | null {
  const { state, statusCode, errorCode } = run;
  const hasValue = isFinal(state) && errorCode === null && !isBodiless(statusCode ?? 0);
  if (!hasValue || !payload?.result || payload.contentType === STREAM_TYPE) return null;
  return isServerRun(run) ? asJson(payload) : unwrapResult(payload.result, payload.isBare);
}

/** What a run's webhook gets; throws if its transcript cannot be read now. */
export async function wholeResponse(run: LiveRun, { response }: RunEnd): Promise<RunResponse> {
  return hasStreamed(run) ? await wholeStream(run, response) : response;
}

/** The delivery of a response to a run's webhook, due now. */
export function deliveryOf(
  { id, appNumber, trace }: RunKey & Pick<NewDelivery, "trace">,
  { endpoint: url, sealedSecret }: Webhook,
  { status: runStatus, contentType, body }: RunResponse,
  now: number,
): NewDelivery {
  return {
    id,
    appNumber,
    url,
    contentType,
    runStatus,
    body,
    sealedSecret,
    nextAt: now,
    createdAt: now,
    trace,
  };
}

/** The text of a stream piece by piece, as its caller got it; `error` follows its chunks. */
export async function* streamText(
  transcript: Transcript,
  sse: SseMode,
  error: string | null,
): AsyncGenerator<Buffer> {
  const buffer = new SseBuffer(sse);
  for await (const chunks of allChunks(transcript)) {
    for (const chunk of chunks) buffer.addChunk(chunk);
    yield buffer.take();
  }
  if (error === null) return;
  buffer.addEvent("error", error);
  yield buffer.take();
}

async function wholeStream(run: LiveRun, { status, error }: RunResponse): Promise<RunResponse> {
  const { id, target } = run.request;
  const errorText = error && errorBody(error, id);
  const pieces: Buffer[] = [];
  try {
    const text = streamText(run.transcript(), target.config.deployment.sse, errorText);
    for await (const piece of text) pieces.push(piece);
    return { status, contentType: STREAM_TYPE, body: Buffer.concat(pieces), headers: {}, error };
  } catch (cause) {
    // Part of a text would look like the whole. If it cannot be read now, it may be read later.
    if (!(cause instanceof AppError) || cause.code !== "payload_not_kept") throw cause;
    return respondError(id, cause);
  }
}

/** Whether its response was, or would have been, a stream: an error before the first chunk is an ordinary response. */
function hasStreamed(run: LiveRun): boolean {
  return run.isStream && (run.end?.response.error === null || run.transcript().count > 0);
}
