import type { DeliveryAttempt } from "../../model/delivery.ts";
import { isServerRun } from "../../model/http-request.ts";
import type { LineBatch } from "../../model/line-batch.ts";
import { newSpanId, type RunTrace } from "../../model/trace.ts";
import type { RunTarget } from "../../replicas/pool.ts";
import type { AttemptSpans, LiveRun, RunEnd, RunRequest } from "../live-run.ts";
import { genAiAttributes } from "./gen-ai.ts";
import type { Span, SpanAttributes, SpanRef } from "./span-queue.ts";

/**
 * The spans of a run, made from what it knows when it ends:
 *
 *     receive             from the request to its answer; `fire` for the run of a schedule; one for all lines of a batch
 *       attempt           from its acceptance, or from when it was claimed again
 *         queue           until a replica got it
 *           start         while no replica was ready
 *             schedule    of its pod or actor
 *             pull
 *             import
 *             setup
 *         run             on the replica; the app's own spans are below it
 *           batch         of the first of the calls that ran together, linked with the others
 *       delivery          each attempt at the webhook
 */

/** A trace of which spans are recorded. */
export type Recorded = RunTrace & { readonly spanId: string };

/** The spans that do not say it otherwise. */
const PLAIN = { kind: "internal", errorCode: null, attributes: {}, links: [] } as const;
/** Less is the error of a subtraction. */
const LEAST_MS = 0.001;
const NONE: readonly SpanRef[] = [];

export function isRecorded(trace: RunTrace | null | undefined): trace is Recorded {
  return (trace?.spanId ?? null) !== null;
}

/** The run's own span, above those of its attempts. `statusCode`: what its caller was answered. */
export function receiveSpan(
  request: RunRequest,
  trace: Recorded,
  times: Pick<Span, "startMs" | "endMs">,
  statusCode: number | null,
): Span {
  const { http } = request;
  const answered = !trace.isFired && statusCode !== null;
  return {
    ...PLAIN,
    ...times,
    ...inTrace(trace),
    name: trace.isFired ? "fire" : "receive",
    kind: trace.isFired ? "internal" : "server",
    spanId: trace.spanId,
    parentId: trace.parentId,
    isParentRemote: true,
    errorCode: answered && statusCode >= 500 ? String(statusCode) : null,
    attributes: {
      ...runAttributes(request),
      ...(!trace.isFired && { "http.request.method": http === undefined ? "POST" : http.method }),
      ...(answered && { "http.response.status_code": statusCode }),
    },
  };
}

/** The span of a request that brought a batch of lines, above the attempts of their runs. */
export function uploadSpan(
  { id, functionName, total }: Pick<LineBatch, "id" | "functionName" | "total">,
  { projectId, appName, versionId }: RunTarget,
  trace: Recorded,
  times: Pick<Span, "startMs" | "endMs">,
): Span {
  return {
    ...PLAIN,
    ...times,
    ...inTrace(trace),
    name: "receive",
    kind: "server",
    spanId: trace.spanId,
    parentId: trace.parentId,
    isParentRemote: true,
    attributes: {
      "millrace.line_batch.id": id,
      "millrace.line_batch.lines": total,
      "millrace.project.id": projectId,
      "millrace.app.name": appName,
      "millrace.version.id": versionId,
      ...(!isServerRun({ functionName }) && { "millrace.function": functionName }),
      "http.request.method": "POST",
      "http.response.status_code": 202,
    },
  };
}

/** The spans of an attempt that has ended. */
export function attemptSpans(run: LiveRun, end: RunEnd, trace: Recorded, ids: AttemptSpans): Span[] {
  const { request, call, claim, claimedAt } = run;
  const { attempt } = call;
  const endMs = run.epochOf(end.at);
  const startMs = attempt === 1 ? Math.min(run.createdAt, claimedAt) : claimedAt;
  const hasBegun = call.handedAt > 0;
  const begunMs = hasBegun ? run.epochOf(call.handedAt) : endMs;
  const errorCode = end.response.error?.code ?? null;
  const below = inTrace(trace);
  const attributes: SpanAttributes = {
    ...runAttributes(request),
    "millrace.run.attempt": attempt,
    "millrace.run.is_async": run.isAsync,
    ...(claim !== null && claim.interruptions > 0 && { "millrace.run.interruptions": claim.interruptions }),
    ...(errorCode !== null && { "error.type": errorCode }),
  };
  const attemptSpan = { ...PLAIN, ...below, startMs, endMs, errorCode, attributes };
  const spans: Span[] = [
    { ...attemptSpan, name: "attempt", spanId: ids.attemptId, parentId: trace.spanId },
    ...queueSpans(run, trace, ids.attemptId, startMs, begunMs),
  ];
  if (!hasBegun) return spans;
  const batch = batchSpans(run, trace, ids.runId, endMs);
  const { holder } = call;
  spans.push({
    ...attemptSpan,
    name: "run",
    spanId: ids.runId,
    parentId: ids.attemptId,
    startMs: begunMs,
    attributes: {
      ...attributes,
      ...(holder && { "millrace.replica.id": holder.id }),
      ...batch.attributes,
      ...genAiAttributes(end.response, run.usageChunk),
    },
    links: batch.links,
  });
  spans.push(...batch.spans);
  return spans;
}

function queueSpans(run: LiveRun, trace: Recorded, parentId: string, startMs: number, endMs: number): Span[] {
  const below = inTrace(trace);
  const queueId = newSpanId();
  const spans: Span[] = [{ ...PLAIN, ...below, name: "queue", spanId: queueId, parentId, startMs, endMs }];
  const { coldMs, setupMs } = run.call;
  if (coldMs < LEAST_MS) return spans;
  // The wait of a call that no replica is ready for begins with that.
  const coldAt = Math.max(startMs, run.claimedAt);
  const readyMs = Math.min(endMs, coldAt + coldMs);
  const startId = newSpanId();
  spans.push({
    ...PLAIN,
    ...below,
    name: "start",
    spanId: startId,
    parentId: queueId,
    startMs: coldAt,
    endMs: readyMs,
  });
  for (const part of startParts(run, { startMs: coldAt, endMs: readyMs }, setupMs))
    spans.push({ ...PLAIN, ...below, ...part, spanId: newSpanId(), parentId: startId });
  return spans;
}

/** What the call waited for, as far as that lies in its wait: its replica may have begun to start before. */
function startParts(
  run: LiveRun,
  wait: Pick<Span, "startMs" | "endMs">,
  setupMs: number,
): Pick<Span, "name" | "startMs" | "endMs">[] {
  const {
    begunAt = 0,
    scheduledAt = 0,
    pulledAt = 0,
    importedAt = 0,
  } = run.call.holder?.startTimes?.() ?? {};
  const placedAt = scheduledAt || begunAt;
  const parts: readonly (readonly [name: string, from: number, to: number])[] = [
    ["schedule", begunAt, scheduledAt],
    ["pull", placedAt, pulledAt],
    ["import", pulledAt || placedAt, importedAt],
  ];
  const setup = [{ name: "setup", startMs: wait.endMs - setupMs, endMs: wait.endMs }];
  return parts
    .flatMap(([name, from, to]) =>
      from > 0 && to > from ? [{ name, startMs: run.epochOf(from), endMs: run.epochOf(to) }] : [],
    )
    .concat(setupMs > 0 ? setup : [])
    .map(({ name, startMs, endMs }) => ({
      name,
      startMs: Math.max(startMs, wait.startMs),
      endMs: Math.min(endMs, wait.endMs),
    }))
    .filter(({ startMs, endMs }) => endMs > startMs);
}

/** What a call's span says of the calls that ran with it; and the span of all of them, at the end of the first. */
function batchSpans(run: LiveRun, trace: Recorded, runSpanId: string, endMs: number) {
  const { batch } = run.call;
  const attributes: SpanAttributes = batch
    ? { "millrace.batch.size": batch.size, "millrace.batch.reason": batch.reason }
    : {};
  const recorded = batch?.traces?.filter(({ spanId }) => spanId !== null) ?? [];
  const [first] = recorded;
  if (!batch || !first || batch.size === 1) return { attributes, links: NONE, spans: [] };
  batch.spanId ??= newSpanId();
  const links = [{ traceId: first.traceId, spanId: batch.spanId }];
  if (first.spanId !== runSpanId) return { attributes, links, spans: [] };
  const span: Span = {
    ...PLAIN,
    ...inTrace(trace),
    name: "batch",
    spanId: batch.spanId,
    parentId: runSpanId,
    startMs: run.epochOf(batch.handedAt),
    endMs,
    attributes,
    links: recorded.flatMap(({ traceId, spanId }) => (spanId === null ? [] : { traceId, spanId })),
  };
  return { attributes, links, spans: [span] };
}

/** The span of one attempt to deliver a run's response to its webhook. */
export function deliverySpan(
  trace: Recorded,
  spanId: string,
  { id, url }: { readonly id: string; readonly url: string },
  attempt: Pick<DeliveryAttempt, "number" | "startedAt" | "durationMs" | "status" | "error">,
): Span {
  const { number, startedAt, durationMs, status, error } = attempt;
  const { hostname = "" } = URL.parse(url) ?? {};
  return {
    ...PLAIN,
    ...inTrace(trace),
    name: "delivery",
    kind: "client",
    spanId,
    parentId: trace.spanId,
    startMs: startedAt,
    endMs: startedAt + durationMs,
    errorCode: error,
    attributes: {
      "millrace.run.id": id,
      "millrace.delivery.attempt": number,
      "http.request.method": "POST",
      "server.address": hostname,
      ...(status !== null && { "http.response.status_code": status }),
      ...(error !== null && { "error.type": error }),
    },
  };
}

function inTrace({ traceId, state }: RunTrace): Pick<Span, "traceId" | "state"> {
  return { traceId, state };
}

function runAttributes({ id, target, functionName, http }: RunRequest): SpanAttributes {
  const { projectId, appName, versionId } = target;
  return {
    "millrace.run.id": id,
    "millrace.project.id": projectId,
    "millrace.app.name": appName,
    "millrace.version.id": versionId,
    // Of a server app it is a path of the caller's.
    ...(http === undefined && { "millrace.function": functionName }),
  };
}
