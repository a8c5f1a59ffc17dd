import type { Socket } from "node:net";
import { Condition } from "../kit/concurrency.ts";
import type { Clock } from "../kit/clock.ts";
import type { Outcome } from "../model/outcome.ts";
import { makeRun } from "../model/run.ts";
import type { Run, RunCaller, RunState } from "../model/run.ts";
import type { TranscriptPart } from "../model/transcript-part.ts";
import { Call, GRANT_BYTES } from "../replicas/call.ts";
import type { ResponseHead } from "../kit/http/response-parser.ts";
import type {
  CallReader,
  Chunk,
  Conversation,
  ConversationEnd,
  HttpCallRequest,
  ResponseFlow,
  ResponseSink,
} from "../replicas/call.ts";
import type { RunTarget } from "../replicas/pool.ts";
import type { Store } from "../store/store.ts";
import type { PartReader, PartWriter } from "./transcript-parts.ts";
import { isBodiless, plainChunk, respond } from "./response.ts";
import type { RunResponse } from "./response.ts";
import { LiveTranscript } from "./transcript.ts";

/** Where a run's response goes besides its caller. */
export type Webhook = { readonly endpoint: string; readonly sealedSecret: Uint8Array | null };

/** A request to a server app. */
export type ServerRequest = HttpCallRequest & {
  /** What is stored as the run's input; null where it was larger than what is kept. */
  input(): Buffer | null;
};

export type RunRequest = {
  readonly id: string;
  readonly target: RunTarget;
  readonly functionName: string;
  /** The arguments, checked, as the bytes that came. */
  readonly body: Buffer;
  readonly isBare: boolean;
  readonly ip: string | null;
  readonly caller: RunCaller | null;
  readonly webhook: Webhook | null;
  /** Of a server app. Its path stands for the function's name. */
  readonly http?: ServerRequest;
};

/** A run that is in the store before it ends, and the right to write its end there. */
export type Claim = {
  readonly owner: string;
  readonly fence: number;
  readonly isAsync: boolean;
  readonly attempt: number;
  /** How often the service itself ended under it. */
  readonly interruptions: number;
  /** Epoch milliseconds of its acceptance. */
  readonly createdAt: number;
  /** Of the caller's `Idempotency-Key`. */
  readonly keyHash: Uint8Array | null;
  /** Chunks of it that were stored before the service ended under it. */
  readonly storedEvents: number;
};

/** Spans of a run, in milliseconds; null where it did not get so far. */
export type RunTiming = {
  /** Waiting while a replica was ready. */
  readonly queueMs: number;
  /** Waiting for a replica to start. */
  readonly startMs: number;
  readonly runMs: number | null;
};

/** How a run ended. For a stream that failed on the way the response is what it would have been before it. */
export type RunEnd = {
  readonly outcome: Outcome;
  readonly response: RunResponse;
  readonly timing: RunTiming;
  /** Monotonic milliseconds. */
  readonly at: number;
};

/** The caller that waits for a run. */
export type RunReader = {
  /** The function gave an iterator: chunks follow, then the end. */
  onStream(): void;
  /** Each chunk's bytes have to be granted again, or the generator waits. */
  onChunk(chunk: Chunk): void;
  /** A server waits for the request's body. */
  onContinue?(): void;
  /** A server has begun to answer: its body goes into what this gives, if anything; then the end. */
  onResponse?(head: ResponseHead, flow: ResponseFlow): ResponseSink | null;
  /** A server agrees to a WebSocket. */
  onUpgrade?: CallReader["onUpgrade"];
  /** Exactly once. */
  onEnd(end: RunEnd): void;
};

/** Who writes a run's end down, and says so by `run.settle()`. */
export type RunRecorder = { record(run: LiveRun, end: RunEnd): void };

/** What every run is built with. */
export type RunParts = {
  readonly clock: Clock;
  readonly store: Store;
  readonly partReader: PartReader;
  readonly partWriter: PartWriter;
};

/** A run under way, until its end is written down. */
export class LiveRun implements CallReader {
  readonly call: Call;
  readonly request: RunRequest;
  readonly #parts: RunParts;
  /** Epoch milliseconds. */
  readonly createdAt: number;
  /** Between its acceptance and its way to a slot. */
  readonly #storedMs: number;
  readonly #onSettled: (run: LiveRun) => void;
  /** Null if no caller waits: then only a store that is behind holds the generator up. */
  #reader: RunReader | null;
  #recorder: RunRecorder;
  #transcript: LiveTranscript | null = null;
  #owedBytes = 0;
  #settled: Condition | null = null;
  #isSettled = false;
  /** Its neighbours among those under way: the executor's own. */
  before: LiveRun | null = null;
  after: LiveRun | null = null;
  isStream = false;
  /** Null while its record is nowhere but here. */
  claim: Claim | null;
  end: RunEnd | null = null;
  /** The end of a stream, to be stored with its record. */
  lastPart: TranscriptPart | null = null;

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
    const lane = claim?.isAsync ? "backlog" : "caller";
    this.call = new Call(request.id, request.functionName, request.body, this, lane, request.http);
  }

  /** Nobody waits at the other end of a connection. */
  get isAsync(): boolean {
    return this.claim?.isAsync ?? false;
  }

  /** Stops the run; its reader learns at once, the slot is free when the code has stopped. */
  cancel(): void {
    this.abandon({ kind: "cancelled" });
  }

  /** Stops the run with another outcome than its own. */
  abandon(outcome: Outcome): void {
    this.request.target.slots.abandon(this.call, outcome);
  }

  /** The caller has gone: cancels a run that still waits; one that has started goes on. */
  detach(): void {
    if (this.call.holder === null) this.cancel();
  }

  /** Replaces the reader and the recorder. */
  handTo(reader: RunReader | null, recorder: RunRecorder): void {
    this.#reader = reader;
    this.#recorder = recorder;
  }

  /** The reader has taken so many bytes of chunks: the generator may send as many more. */
  grant(bytes: number): void {
    this.#owedBytes += bytes;
    // Told in large amounts: a word per message would cost more than the message.
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

  /** Its spans as far as they are known. */
  timing(): RunTiming {
    return this.#timing(this.#parts.clock.monotonic(), null);
  }

  /** Its chunks, those to come too; made when somebody first asks. */
  transcript(): LiveTranscript {
    const { id, target } = this.request;
    const { limits, deployment } = target.config;
    if (this.#transcript) return this.#transcript;
    // What is forwarded is read back whole first.
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
      // An async run begins again after a crash, and with it its transcript; of a light one nothing is known then.
      clock: isKept && this.claim && !this.isAsync ? clock : null,
      maxBytes: limits.maxTranscriptBytes,
      isKept,
      isOwed: () => this.claim !== null,
    });
    // Whoever comes while the end is written down is to see it too.
    if (this.end) this.#endTranscript(this.#transcript, this.end.outcome);
    return this.#transcript;
  }

  /** Resolves when its end is written down, or the signal says that nobody waits for it. */
  async settled(signal?: AbortSignal): Promise<void> {
    if (!this.#isSettled) await (this.#settled ??= new Condition()).wait(signal);
  }

  /** Its end is written down. */
  settle(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#onSettled(this);
    this.#settled?.notify();
  }

  onStream(): void {
    this.isStream = true;
    this.transcript();
    this.#reader?.onStream();
  }

  onChunk(chunk: Chunk): void {
    const transcript = this.transcript();
    transcript.add(chunk);
    if (this.#reader) this.#reader.onChunk(chunk);
    else this.grantUnread(chunk.wireBytes);
    if ((this.isAsync || this.request.webhook) && transcript.isTooLong) this.#abandonTooLong();
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
    const response = respond(this.request.id, outcome, this.request.isBare);
    const at = this.#parts.clock.monotonic();
    const timing = this.#timing(at, "runMs" in outcome ? outcome.runMs : null);
    this.end = { outcome, response, timing, at };
    this.#reader?.onEnd(this.end);
    if (this.#transcript) this.lastPart = this.#endTranscript(this.#transcript, outcome);
    this.#recorder.record(this, this.end);
  }

  /** Its record as it stands. */
  record(): Run {
    const end = this.end;
    const { enqueuedAt, handedAt, holder, traffic } = this.call;
    const { queueMs, startMs, runMs } = end ? end.timing : this.timing();
    const responseMs = end ? this.#storedMs + end.at - enqueuedAt : null;
    const completedAt = responseMs === null ? null : this.createdAt + Math.round(responseMs);
    const startedAt = handedAt ? this.createdAt + Math.round(this.#storedMs + handedAt - enqueuedAt) : null;
    const isCancelled = end?.outcome.kind === "cancelled";
    const error = end?.response.error;
    return makeRun(this.request, {
      isAsync: this.isAsync,
      state: end ? finalState(end) : holder ? "running" : "queued",
      statusCode: !end || isCancelled ? null : end.response.status,
      attempt: this.claim?.attempt ?? 1,
      interruptions: this.claim?.interruptions ?? 0,
      createdAt: this.createdAt,
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
      requestBytes: traffic?.requestBytes ?? null,
      responseBytes: traffic?.responseBytes ?? null,
    });
  }

  #endTranscript(transcript: LiveTranscript, outcome: Outcome): TranscriptPart | null {
    if (this.isStream) return transcript.end();
    // Somebody followed it before it was known to be no stream.
    const hasValue = outcome.kind === "returned" && !isBodiless(outcome.status);
    transcript.endPlain(hasValue ? plainChunk(outcome.json) : null);
    return null;
  }

  /** What was to be stored or forwarded whole cannot be any more. */
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
    const { enqueuedAt, handedAt, coldMs } = this.call;
    const waitedMs = this.#storedMs + (handedAt || now) - enqueuedAt;
    return { queueMs: Math.max(0, waitedMs - coldMs), startMs: coldMs, runMs };
  }
}

function finalState({ outcome, response }: RunEnd): RunState {
  if (outcome.kind === "cancelled") return "cancelled";
  return response.status < 400 ? "success" : "failure";
}
