import type { TraceSettings } from "../../config/telemetry.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Lifecycle } from "../../kit/lifecycle.ts";
import type { Log } from "../../kit/log.ts";
import type { DeliveryAttempt } from "../../model/delivery.ts";
import type { LineBatch } from "../../model/line-batch.ts";
import { isSampled, type Sampling } from "../../model/sampling.ts";
import {
  type CallTrace,
  newSpanId,
  newTraceId,
  readTrace,
  type RunTrace,
  traceBelow,
} from "../../model/trace.ts";
import type { RunTarget } from "../../replicas/pool.ts";
import type { LiveRun, RunEnd, RunRequest } from "../live-run.ts";
import { attemptSpans, deliverySpan, isRecorded, receiveSpan, uploadSpan } from "./run-spans.ts";
import { SpanQueue } from "./span-queue.ts";

type TracerParts = { readonly sampling: Sampling; readonly spans: SpanQueue; readonly clock: Clock };

/** A delivery, as its spans show it. */
type Delivered = { readonly id: string; readonly url: string; readonly trace: RunTrace | null };

type Ended = { readonly run: LiveRun; readonly end: RunEnd };

/** Decides which trace a run belongs to, and records the spans of those that are sampled. */
export class Tracer {
  /** Null if traces are only passed on. */
  readonly #parts: TracerParts | null;
  #ended: Ended[] = [];

  constructor(parts: TracerParts | null) {
    this.#parts = parts;
  }

  /** Whether spans are recorded by this service. */
  get isRecording(): boolean {
    return this.#parts !== null;
  }

  /** Spans that were exported, and dropped; null if none are recorded. */
  get counts(): Pick<SpanQueue, "exported" | "dropped"> | null {
    return this.#parts && this.#parts.spans;
  }

  /**
   * The trace of a new run: its caller's, if the request names one. Without a valid token, nothing that the caller says makes
   * a trace be recorded.
   */
  begin(traceparent: string | null, tracestate: string | null, hasToken: boolean): RunTrace | null {
    const context = traceparent === null ? null : readTrace(traceparent, tracestate);
    if (!context) return this.#parts && this.#root(this.#parts);
    const { traceId, parentId, state, isRandom = false } = context;
    const said = hasToken && context.isSampled;
    const isTaken = this.#parts ? isSampled(this.#parts.sampling, hasToken ? context : null) : said;
    return {
      traceId,
      parentId,
      spanId: this.#parts && isTaken ? newSpanId() : null,
      isSampled: isTaken,
      ...(isRandom && { isRandom }),
      state,
    };
  }

  /** The trace of the run of a schedule. */
  fire(): RunTrace | null {
    const trace = this.#parts && this.#root(this.#parts);
    return trace && { ...trace, isFired: true };
  }

  #root({ sampling }: TracerParts): RunTrace | null {
    if (!isSampled(sampling, null)) return null;
    const ids = { traceId: newTraceId(), parentId: null, spanId: newSpanId() };
    return { ...ids, isSampled: true, isRandom: true, state: null };
  }

  /** An async run was accepted. */
  accepted(request: RunRequest, startMs: number): void {
    const { trace } = request;
    if (!this.#parts || !isRecorded(trace)) return;
    const { spans, clock } = this.#parts;
    spans.add(receiveSpan(request, trace, { startMs, endMs: clock.now() }, ACCEPTED));
  }

  /** A batch of lines was accepted, whose runs belong to its trace. */
  uploaded(
    batch: Pick<LineBatch, "id" | "functionName" | "total" | "trace">,
    target: RunTarget,
    startMs: number,
  ): void {
    const { trace } = batch;
    if (!this.#parts || !isRecorded(trace)) return;
    const { spans, clock } = this.#parts;
    spans.add(uploadSpan(batch, target, trace, { startMs, endMs: clock.now() }));
  }

  /** An attempt of a run has ended. All callers are answered before its spans are made. */
  ended(run: LiveRun, end: RunEnd): void {
    if (this.#ended.push({ run, end }) === 1) setImmediate(() => this.#recordEnded());
  }

  #recordEnded(): void {
    const ended = this.#ended;
    this.#ended = [];
    if (!this.#parts) return;
    const { spans } = this.#parts;
    for (const { run, end } of ended) {
      try {
        this.#record(spans, run, end);
      } catch (error) {
        // A trace must never end the service.
        spans.drop(1, error);
      }
    }
  }

  #record(queue: SpanQueue, run: LiveRun, end: RunEnd): void {
    const { request, spans, wasAccepted, call, claim } = run;
    const { trace } = request;
    if (!isRecorded(trace) || !spans) return;
    const isFirst = call.attempt === 1 && !claim?.interruptions;
    if (trace.isFired && isFirst)
      queue.add(receiveSpan(request, trace, { startMs: run.createdAt, endMs: run.createdAt }, null));
    if (!wasAccepted) {
      const times = { startMs: run.createdAt, endMs: run.epochOf(end.at) };
      queue.add(receiveSpan(request, trace, times, end.response.status));
    }
    for (const span of attemptSpans(run, end, trace, spans)) queue.add(span);
  }

  /** What the receiver of a webhook is told; null without a trace. */
  deliver(trace: RunTrace | null): CallTrace | null {
    return trace && traceBelow(trace, this.#parts && trace.spanId !== null ? newSpanId() : null);
  }

  /** An attempt of a delivery has ended. */
  delivered(
    delivery: Delivered,
    told: CallTrace | null,
    attempt: Pick<DeliveryAttempt, "number" | "startedAt" | "durationMs" | "status" | "error">,
  ): void {
    const { trace } = delivery;
    if (!this.#parts || !told?.spanId || !isRecorded(trace)) return;
    this.#parts.spans.add(deliverySpan(trace, told.spanId, delivery, attempt));
  }

  /** Exports what waits. */
  async close(): Promise<void> {
    this.#recordEnded();
    await this.#parts?.spans.close();
  }
}

const ACCEPTED = 202;

type StartParts = {
  /** Null if nothing is exported. */
  readonly settings: TraceSettings | null;
  readonly nodeId: string;
  readonly clock: Clock;
  readonly log: Log;
};

/** Loads what exports traces only if an endpoint is configured: it takes time and memory. */
export async function startTracer(
  { settings, nodeId, clock, log }: StartParts,
  life: Lifecycle,
): Promise<Tracer> {
  if (!settings) return new Tracer(null);
  return await life.start(
    "traces",
    async () => {
      const { openExporter } = await import("./otlp.ts");
      const exporter = await openExporter(settings, nodeId);
      const spans = new SpanQueue({ ...settings, exporter, clock, log });
      return new Tracer({ sampling: settings.sampling, spans, clock });
    },
    (tracer) => tracer.close(),
  );
}
