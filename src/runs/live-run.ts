import type { Socket } from "node:net";
import { Condition } from "../kit/concurrency.ts";
import type { Clock } from "../kit/clock.ts";
import { isGpu } from "../model/app-config.ts";
import type { Fairness } from "../model/queue-limits.ts";
import type { Outcome } from "../model/outcome.ts";
import { makeRun, type Run, type RunCaller, type RunState, type TranscriptPart } from "../model/run.ts";
import type { Checkpoint, CheckpointNote } from "../model/run.ts";
import type { ResponseHead } from "../kit/http/response-parser.ts";
import { Call, type CallReader, type Chunk, GRANT_BYTES, type HttpCallRequest } from "../replicas/call.ts";
import type { ReportedProgress } from "../replicas/call.ts";
import type { Conversation, ConversationEnd, ResponseFlow, ResponseSink } from "../replicas/call.ts";
import type { Terms } from "../model/terms.ts";
import { newSpanId, type RunTrace, traceBelow } from "../model/trace.ts";
import type { CheckpointAnswer } from "../replicas/frames.ts";
import type { RunTarget } from "../replicas/pool.ts";
import type { Store } from "../store/store.ts";
import type { CheckpointWriter } from "./checkpoint-writer.ts";
import { ProgressKeeper } from "./progress.ts";
import type { PartReader, PartWriter } from "./transcript-parts.ts";
import { isBodiless, plainChunk, respond, type RunResponse } from "./response.ts";
import { hasUsage, tokensOf } from "./traces/gen-ai.ts";
import { LiveTranscript } from "./transcript.ts";

/** Where a run's response is sent, in addition to its caller. */
export type Webhook = { readonly endpoint: string; readonly sealedSecret: Uint8Array | null };

/** A request to a server app. */
export type ServerRequest = HttpCallRequest & {
  /** The run's stored input; null if it was larger than what is kept. */
  input(): Buffer | null;
};

export type RunRequest = {
  readonly id: string;
  readonly target: RunTarget;
  readonly functionName: string;
  /** The checked arguments, byte for byte. */
  readonly body: Buffer;
  readonly isBare: boolean;
  readonly ip: string | null;
  readonly caller: RunCaller | null;
  /** In whose line it waits for a slot, if a caller waits for it; absent or null: that of callers without a token. */
  readonly fairness?: Fairness | null;
  readonly webhook: Webhook | null;
  /** What the caller of an async run asked of the queue. */
  readonly terms?: Terms | null;
  /** Null or absent: it belongs to no trace. */
  readonly trace?: RunTrace | null;
  /** Set for a server app, with the path as the function name. */
  readonly http?: ServerRequest;
};

/** The right to write the end of a stored run. */
export type Claim = {
  readonly owner: string;
  readonly fence: number;
  readonly isAsync: boolean;
  readonly attempt: number;
  /** How often the service died during the run. */
  readonly interruptions: number;
  /** When it was accepted, in epoch milliseconds. */
  readonly createdAt: number;
  /** The hash of its `Idempotency-Key`. */
  readonly keyHash: Uint8Array | null;
  /** Chunks that were stored before the service died, or by earlier attempts that this one continues. */
  readonly storedEvents: number;
  readonly storedBytes?: number;
  /** That of an earlier attempt. */
  readonly checkpoint?: Checkpoint | null;
};

/** Spans of a run in milliseconds; null if it did not get that far. */
export type RunTiming = {
  /** Time waited while a replica was ready. */
  readonly queueMs: number;
  /** Time waited for a replica to start. */
  readonly startMs: number;
  /** The part of it in which the replica ran `setup()`. */
  readonly setupMs: number;
  readonly runMs: number | null;
};

/** How a run ended. For a failed stream, the response that it would have had before its first chunk. */
export type RunEnd = {
  readonly outcome: Outcome;
  readonly response: RunResponse;
  readonly timing: RunTiming;
  /** Monotonic milliseconds. */
  readonly at: number;
};

/** The caller that waits for a run. Bytes of chunks must be granted again, or the generator waits. */
export type RunReader = Required<Pick<CallReader, "onStream" | "onChunk">> &
  Pick<CallReader, "onContinue" | "onResponse" | "onUpgrade"> & {
    /** Exactly once. */
    onEnd(end: RunEnd): void;
  };

/** Writes a run's end, then calls `run.settle()`. */
export type RunRecorder = { record(run: LiveRun, end: RunEnd): void };

/** The ids of an attempt's spans that others refer to. */
export type AttemptSpans = { readonly attemptId: string; readonly runId: string };

export type RunParts = {
  readonly clock: Clock;
  readonly store: Store;
  readonly partReader: PartReader;
  readonly partWriter: PartWriter;
  readonly checkpointWriter: CheckpointWriter;
  /** How many GPUs a replica on this machine holds; null if its app gets as many as its configuration says. */
  readonly gpusOf?: (replicaId: string) => number | null;
  /** Gets the ends of attempts whose spans are recorded. */
  readonly tracer?: { readonly isRecording: boolean; ended(run: LiveRun, end: RunEnd): void };
};

/** A run from its start until its end is recorded. */
export class LiveRun implements CallReader {
  readonly call: Call;
  readonly request: RunRequest;
  readonly #parts: RunParts;
  /** Epoch milliseconds. */
  readonly createdAt: number;
  /** From its acceptance until it was queued for a slot. */
  readonly #storedMs: number;
  readonly #onSettled: (run: LiveRun) => void;
  /** Null if no caller waits: then only a store that is behind holds the generator up. */
  #reader: RunReader | null;
  #recorder: RunRecorder;
  #transcript: LiveTranscript | null = null;
  #owedBytes = 0;
  #settled: Condition | null = null;
  #isSettled = false;
  // Its neighbours in the executor's list.
  before: LiveRun | null = null;
  after: LiveRun | null = null;
  isStream = false;
  /** Whether this attempt streams. */
  #isStreaming = false;
  /** Null for a run that is not stored yet. */
  claim: Claim | null;
  end: RunEnd | null = null;
  /** The end of a stream, to be stored with its record. */
  lastPart: TranscriptPart | null = null;
  /** The last one that is stored. */
  checkpoint: CheckpointNote | null;
  /** Its caller was answered before it began: it was async from its acceptance. */
  readonly wasAccepted: boolean;
  /** Null if they are not recorded. */
  readonly spans: AttemptSpans | null = null;
  /** Of all chunks of this attempt. */
  #streamedBytes = 0;
  /** The last chunk that may say what a model did; only of calls in OpenAI's form, or if its spans are recorded. */
  usageChunk: Buffer | null = null;
  /** Null until the run says how far it is, or someone asks. */
  progress: ProgressKeeper | null = null;

  constructor(
    request: RunRequest,
    parts: RunParts,
    reader: RunReader | null,
    recorder: RunRecorder,
    claim: Claim | null,
    onSettled: (run: LiveRun) => void,
  ) {
    this.request = request;
    this.claim = claim;
    this.#parts = parts;
    this.#reader = reader;
    this.#recorder = recorder;
    this.#onSettled = onSettled;
    const now = parts.clock.now();
    this.createdAt = claim ? claim.createdAt : now;
    this.#storedMs = Math.max(0, now - this.createdAt);
    this.isStream = claim !== null && claim.storedEvents > 0;
    this.wasAccepted = claim?.isAsync ?? false;
    const lane = claim?.isAsync ? "backlog" : "caller";
    this.call = new Call(request.id, request.functionName, request.body, this, lane, request.http);
    this.call.fairness = request.fairness ?? null;
    this.call.attempt = claim?.attempt ?? 1;
    const { trace } = request;
    if (trace) {
      if (trace.spanId !== null && parts.tracer?.isRecording)
        this.spans = { attemptId: newSpanId(), runId: newSpanId() };
      this.call.trace = traceBelow(trace, this.spans && this.spans.runId);
    }
    this.checkpoint = claim?.checkpoint ?? null;
    if (claim?.checkpoint) {
      const { value, sent: checkpointSent } = claim.checkpoint;
      this.call.resume = { value, checkpointSent, sent: claim.storedEvents };
    }
  }

  /** Whether no caller waits for it. */
  get isAsync(): boolean {
    return this.claim?.isAsync ?? false;
  }

  /** The reader gets the end at once; the slot becomes free when the code has stopped. */
  cancel(): void {
    this.abandon({ kind: "cancelled" });
  }

  abandon(outcome: Outcome): void {
    this.request.target.slots.abandon(this.call, outcome);
  }

  /** The caller has gone: cancels a run that still waits; a started one continues. */
  detach(): void {
    if (this.call.holder === null) this.cancel();
  }

  handTo(reader: RunReader | null, recorder: RunRecorder): void {
    this.#reader = reader;
    this.#recorder = recorder;
  }

  /** Lets the generator send that many more bytes of chunks. */
  grant(bytes: number): void {
    this.#owedBytes += bytes;
    // In large amounts, because a frame per message would cost more than the message.
    if (this.#owedBytes < GRANT_BYTES) return;
    this.call.holder?.grant(this.call, this.#owedBytes);
    this.#owedBytes = 0;
  }

  /** Grants bytes that no caller reads, once the store has room. */
  grantUnread(bytes: number): void {
    const { partWriter } = this.#parts;
    if (partWriter.isFull) void partWriter.untilRoom().then(() => this.grant(bytes));
    else this.grant(bytes);
  }

  /** When this attempt began to wait here, in epoch milliseconds. */
  get claimedAt(): number {
    return this.createdAt + this.#storedMs;
  }

  /** A time of the clock that only grows, in epoch milliseconds. */
  epochOf(monotonicMs: number): number {
    return this.claimedAt + monotonicMs - this.call.enqueuedAt;
  }

  timing(): RunTiming {
    return this.#timing(this.#parts.clock.monotonic(), null);
  }

  /** All its chunks, also later ones; created on first use. */
  transcript(): LiveTranscript {
    const { id, target } = this.request;
    const { limits, deployment } = target.config;
    if (this.#transcript) return this.#transcript;
    // A webhook needs the whole transcript.
    const isKept =
      this.isAsync ||
      this.request.webhook !== null ||
      (deployment.recordPayloads === "all" && !target.hidden.result);
    const { store, partReader: reader, partWriter: writer, clock } = this.#parts;
    this.#transcript = new LiveTranscript({
      key: { appNumber: target.appNumber, id },
      firstEvent: 1 + (this.claim?.storedEvents ?? 0),
      store,
      reader,
      writer,
      // An async run restarts after a crash with a new transcript; a light run leaves none.
      clock: isKept && this.claim && !this.isAsync ? clock : null,
      maxBytes: limits.maxTranscriptBytes,
      isKept,
      isOwed: () => this.claim !== null,
      durable: () => (this.claim?.isAsync ? this.#durability(this.claim) : null),
    });
    // A reader may come while the end is being recorded.
    if (this.end) this.#endTranscript(this.#transcript, this.end.outcome);
    return this.#transcript;
  }

  #durability(claim: Claim) {
    const { id, target } = this.request;
    return {
      key: { appNumber: target.appNumber, id },
      claim,
      writer: this.#parts.checkpointWriter,
      resumedBytes: claim.checkpoint ? (claim.storedBytes ?? 0) : null,
      onStored: (_bytes: number, wireBytes: number) => this.grant(wireBytes),
      // Another service has the run: it must not go on here.
      onLost: (fate: "lost" | "stopped") => {
        if (fate === "lost") this.cancel();
      },
    };
  }

  /** Resolves when its end is recorded, or the signal aborts. */
  async settled(signal?: AbortSignal): Promise<void> {
    if (!this.#isSettled) await (this.#settled ??= new Condition()).wait(signal);
  }

  /** Its end is recorded. */
  settle(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#transcript?.reveal();
    this.#onSettled(this);
    this.#settled?.notify();
  }

  onStream(): void {
    this.isStream = true;
    this.#isStreaming = true;
    this.transcript();
    this.#reader?.onStream();
  }

  onChunk(chunk: Chunk): void {
    // A copy: the bytes are of a buffer that is used again.
    if ((this.spans || this.request.isBare) && hasUsage(chunk.bytes))
      this.usageChunk = Buffer.from(chunk.bytes);
    this.#streamedBytes += chunk.bytes.length;
    const transcript = this.transcript();
    transcript.add(chunk);
    if (this.#reader) this.#reader.onChunk(chunk);
    else if (!transcript.isDurable) this.grantUnread(chunk.wireBytes);
    if ((this.isAsync || this.request.webhook) && transcript.isTooLong) this.#abandonTooLong();
  }

  /** Answers when it is stored: while the storage is away, the function waits. */
  onCheckpoint(value: Buffer, answer: (answer: CheckpointAnswer) => void): void {
    const { claim } = this;
    // A caller waits for it: it is not executed again.
    if (!claim?.isAsync || this.#reader) return answer("notKept");
    const transcript = this.transcript();
    const note = { at: this.#parts.clock.now(), sent: transcript.count, attempt: claim.attempt };
    const isTaken = transcript.checkpoint({ ...note, value }, (fate) => {
      if (fate === "stored") this.checkpoint = note;
      if (fate !== "stopped") answer(fate === "stored" ? "stored" : "over");
    });
    if (!isTaken) answer("notKept");
  }

  onProgress(progress: ReportedProgress): void {
    this.keepProgress().report(progress);
  }

  /** Its reports, also later ones. */
  keepProgress(): ProgressKeeper {
    return (this.progress ??= new ProgressKeeper(this.#parts.clock, () => {
      const { claim } = this;
      if (!claim?.isAsync) return null;
      const { id, target } = this.request;
      const { owner, fence } = claim;
      const write = { appNumber: target.appNumber, id, owner, fence, part: null, checkpoint: null };
      return (latest) => this.#parts.checkpointWriter.write({ ...write, progress: latest });
    }));
  }

  /** Resolves when all that it has told on its way is stored, before its end is. */
  async settleNotes(): Promise<void> {
    await this.progress?.flush();
    if (this.#transcript && this.isAsync) await this.#transcript.settle();
  }

  onContinue(): void {
    this.#reader?.onContinue?.();
  }

  onResponse(head: ResponseHead, flow: ResponseFlow): ResponseSink | null {
    return this.#reader?.onResponse?.(head, flow) ?? null;
  }

  onUpgrade(head: ResponseHead, app: Socket, rest: Buffer, onOver: ConversationEnd): Conversation | null {
    return this.#reader?.onUpgrade?.(head, app, rest, onOver) ?? null;
  }

  onEnd(outcome: Outcome): void {
    // A value follows the chunks of earlier attempts as one more.
    const isLast = this.isAsync && this.isStream && !this.#isStreaming && outcome.kind === "returned";
    if (isLast && !isBodiless(outcome.status)) this.transcript().add(plainChunk(outcome.json));
    const response = respond(this.request.id, outcome, this.request.isBare);
    const at = this.#parts.clock.monotonic();
    const timing = this.#timing(at, "runMs" in outcome ? outcome.runMs : null);
    this.end = { outcome, response, timing, at };
    this.#reader?.onEnd(this.end);
    if (this.#transcript) this.lastPart = this.#endTranscript(this.#transcript, outcome);
    if (this.spans) this.#parts.tracer?.ended(this, this.end);
    this.#recorder.record(this, this.end);
  }

  record(): Run {
    const end = this.end;
    const { enqueuedAt, handedAt, holder, traffic, batch, http, body } = this.call;
    const { queueMs, startMs, runMs } = end ? end.timing : this.timing();
    const responseMs = end ? this.#storedMs + end.at - enqueuedAt : null;
    const completedAt = responseMs === null ? null : this.createdAt + Math.round(responseMs);
    const startedAt = handedAt ? this.createdAt + Math.round(this.#storedMs + handedAt - enqueuedAt) : null;
    const isCancelled = end?.outcome.kind === "cancelled";
    const error = end?.response.error;
    const tokens = end && !error ? tokensOf(end.response, this.usageChunk) : null;
    return makeRun(this.request, {
      isAsync: this.isAsync,
      state: end ? finalState(end) : holder ? "running" : "queued",
      statusCode: !end || isCancelled ? null : end.response.status,
      attempt: this.claim?.attempt ?? 1,
      interruptions: this.claim?.interruptions ?? 0,
      createdAt: this.createdAt,
      dueAt: null,
      startedAt,
      completedAt,
      replicaId: holder?.id ?? null,
      replicaStartedAt: holder?.readyAt ?? null,
      errorCode: error?.code ?? null,
      errorMessage: error?.message ?? null,
      errorTraceback: end?.outcome.kind === "raised" ? end.outcome.traceback : null,
      queueMs: end || handedAt ? queueMs + startMs : null,
      runMs,
      responseMs,
      requestBytes: traffic ? traffic.requestBytes : handedAt && !http ? body.length : null,
      responseBytes: traffic ? traffic.responseBytes : handedAt && !http ? this.#answeredBytes() : null,
      batchSize: batch?.size ?? null,
      batchReason: batch?.reason ?? null,
      gpuMs: runMs === null || holder === null ? null : this.#gpuMs(runMs, holder.id),
      inputTokens: tokens && tokens.input,
      outputTokens: tokens && tokens.output,
    });
  }

  /** Of a function: its chunks, or the body that its caller gets. */
  #answeredBytes(): number {
    return this.isStream ? this.#streamedBytes : (this.end?.response.body.length ?? 0);
  }

  /** The share of its replica's GPUs that was the call's own. */
  #gpuMs(runMs: number, replicaId: string): number | null {
    const { gpuCount, compute } = this.request.target.config.hardware;
    if (gpuCount === 0 || !compute.some(isGpu)) return null;
    const gpus = this.#parts.gpusOf?.(replicaId) ?? gpuCount;
    return (runMs * gpus) / (this.call.batch?.size ?? 1);
  }

  #endTranscript(transcript: LiveTranscript, outcome: Outcome): TranscriptPart | null {
    if (this.isStream) return transcript.end();
    // A reader subscribed before it was known not to stream.
    const hasValue = outcome.kind === "returned" && !isBodiless(outcome.status);
    transcript.endPlain(hasValue ? plainChunk(outcome.json) : null);
    return null;
  }

  /** A transcript that must be complete has become too long. */
  #abandonTooLong(): void {
    const { maxTranscriptBytes } = this.request.target.config.limits;
    this.abandon({
      kind: "unsendable",
      code: "result_too_large",
      message: `The stream is larger than max_transcript (${maxTranscriptBytes} bytes).`,
      runMs: this.#parts.clock.monotonic() - this.call.handedAt,
    });
  }

  #timing(now: number, runMs: number | null): RunTiming {
    const { enqueuedAt, handedAt, coldMs, setupMs } = this.call;
    const waitedMs = this.#storedMs + (handedAt || now) - enqueuedAt;
    return { queueMs: Math.max(0, waitedMs - coldMs), startMs: coldMs, setupMs, runMs };
  }
}

function finalState({ outcome, response }: RunEnd): RunState {
  if (outcome.kind === "cancelled") return "cancelled";
  return response.status < 400 ? "success" : "failure";
}
