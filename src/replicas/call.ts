import type { Socket } from "node:net";
import type { StartTimes } from "../engines/engine.ts";
import type { Outcome } from "../model/outcome.ts";
import { type CheckpointAnswer, INITIAL_CREDIT_BYTES, type Resume } from "./frames.ts";
import type { Batch } from "./slots/batch.ts";
import type { Lane, SlotCall } from "./slots/capacity.ts";
import type { CallPhase } from "./wire-order.ts";
import type { Fairness } from "../model/queue-limits.ts";
import type { HttpRequest } from "../model/http-request.ts";
import type { CallTrace } from "../model/trace.ts";
import type { ResponseHead } from "../kit/http/response-parser.ts";

/** One yield of a generator: text as it is, or any other value as JSON. */
export type Chunk = {
  readonly isText: boolean;
  readonly bytes: Buffer;
  /** What it cost of the generator's credit. */
  readonly wireBytes: number;
};

/** A fraction from 0 to 1, and what the function does. */
export type ReportedProgress = { readonly fraction: number | null; readonly message: string | null };

/** Receives what becomes of a call. */
export type CallReader = {
  /** The function returned an iterator: chunks follow, then the end. */
  onStream?(): void;
  onChunk?(chunk: Chunk): void;
  /** The function waits until this JSON is stored, or will not be. */
  onCheckpoint?(value: Buffer, answer: (answer: CheckpointAnswer) => void): void;
  /** The function says how far it is. */
  onProgress?(progress: ReportedProgress): void;
  /** A server waits for the request's body. */
  onContinue?(): void;
  /** A server has begun to answer: its body goes into the returned sink, then comes the end. */
  onResponse?(head: ResponseHead, flow: ResponseFlow): ResponseSink | null;
  /** A server accepts a WebSocket: its connection, the bytes already read, and a callback for its end. */
  onUpgrade?(head: ResponseHead, app: Socket, rest: Buffer, onOver: ConversationEnd): Conversation | null;
  /** Exactly once. */
  onEnd(outcome: Outcome): void;
};

/** How much credit a reader grants at a time: little enough that a generator never waits for it. */
export const GRANT_BYTES = INITIAL_CREDIT_BYTES / 4;

/** The replica that holds a call, as a call's reader sees it. */
export type CallHolder = {
  readonly id: string;
  readonly readyAt: number;
  /** How its start went. */
  startTimes?(): StartTimes & { readonly begunAt: number };
  /** Lets a generator send that many more bytes. */
  grant(call: Call, bytes: number): void;
};

/** What carries a call to a server. */
type CallExchange = {
  /** Its answer is no longer needed. */
  cancel(): void;
  /** Its server is gone. */
  destroy(): void;
  /** The replica is ending: tells WebSocket clients to reconnect. */
  retire(): void;
};

/**
 * One run handed to one replica.
 *
 * waiting → handed → done, and back from handed to waiting when it is withdrawn before it began, or when its replica
 * died before it began. `hasEnded` is what the reader knows; the slot is free only when the replica reports the end,
 * which comes later for a call that was cancelled or timed out.
 */
export class Call implements SlotCall {
  readonly runId: string;
  readonly functionName: string;
  readonly body: Buffer;
  readonly reader: CallReader;
  readonly lane: Lane;
  fairness: Fairness | null = null;
  /** What a server is sent; null for a call of a function. */
  readonly http: HttpCallRequest | null;
  exchange: CallExchange | null = null;
  /** Bytes received and sent by the server; null until the request is sent. */
  traffic: Traffic | null = null;
  /** A WebSocket, which has no time limit. */
  isEndless = false;
  /** The id on its replica's wire; 0 while waiting. */
  wireId = 0;
  holder: CallHolder | null = null;
  phase: CallPhase = "handed";
  /** How many more bytes of chunks it may send. A last chunk may exceed it. */
  creditBytes = 0;
  hasEnded = false;
  isCancelled = false;
  /** A checkpoint waits for its answer. */
  isCheckpointing = false;
  /** How often it has said how far it is. */
  progressCount = 0;
  /** From where it continues; null if from the beginning. */
  resume: Resume | null = null;
  /** Which attempt of its run this is. */
  attempt = 1;
  /** Null if its run belongs to no trace. */
  trace: CallTrace | null = null;
  limitMs = 0;
  group: object | null = null;
  size = 1;
  batch: Batch | null = null;
  isStepped = false;
  isAlone = false;
  enqueuedAt = 0;
  handedAt = 0;
  readyMsAtStart = 0;
  coldMs = 0;
  setupMs = 0;

  constructor(
    runId: string,
    functionName: string,
    body: Buffer,
    reader: CallReader,
    lane: Lane = "caller",
    http: HttpCallRequest | null = null,
  ) {
    this.runId = runId;
    this.functionName = functionName;
    this.body = body;
    this.reader = reader;
    this.lane = lane;
    this.http = http;
  }

  get mayRunAgain(): boolean {
    return this.phase !== "streaming" && !this.hasEnded;
  }

  farewell(): void {
    this.exchange?.retire();
  }

  end(outcome: Outcome): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.reader.onEnd(outcome);
  }
}

/** A request's body that comes piece by piece. */
export type BodySource = {
  /** Its length in bytes; null if it is chunked. */
  readonly length: number | null;
  /** Begins to read. `take` returns whether there is room for more, and calls `onSent` when the bytes are no longer needed. */
  start(
    take: (bytes: Buffer, onSent?: () => void) => boolean,
    end: (trailers: readonly string[]) => void,
  ): void;
  /** `take` has room again. */
  resume(): void;
  /** The rest is not needed. */
  stop(): void;
};

/** A request on its way to a server. */
export type HttpCallRequest = HttpRequest & {
  readonly body: Buffer | BodySource;
  /** How much of the response's body is kept for storage. */
  readonly keptBytes: number;
  /** A larger response fails, because it has to be stored. */
  readonly mustKeep: boolean;
  /** It asks for a WebSocket. */
  readonly isUpgrade?: boolean;
};

/** Bytes of bodies, or of WebSocket frames, to and from a server. */
type Traffic = { readonly requestBytes: number; readonly responseBytes: number };

/** An open WebSocket. */
export type Conversation = Traffic & {
  /** Sends a close frame to both sides and stops forwarding. */
  close(code: number, reason: string): void;
};

/** Called when it ends. `isCut`: the app closed it without a close frame. */
export type ConversationEnd = (isCut: boolean) => void;

/** Where a response's body goes. */
export type ResponseSink = {
  /** False: no room until `resume` of the flow. `onSent` is called when the sink no longer needs the bytes. */
  write(bytes: Buffer, onSent?: () => void): boolean;
  trailers(trailers: readonly string[]): void;
};

/** Holds a response back while its sink is full. */
export type ResponseFlow = { pause(): void; resume(): void };

/** How many places of ended calls may be at the front before the table is copied. */
const MAX_GAP = 1024;

/**
 * Calls by their ascending wire ids, oldest first. Not a `Map`: when a map grows, its old table keeps its entries and
 * points to the new one. Once such a table is old, the garbage collector for young objects treats its entries as alive;
 * every call then survived to the next full collection, at 13 µs a call.
 */
export class CallTable {
  #items: (Call | undefined)[] = [];
  /** The id of the first place. */
  #firstId = 0;
  /** Places at the beginning whose calls have gone. */
  #gap = 0;
  size = 0;

  get(id: number): Call | undefined {
    return this.#items[id - this.#firstId];
  }

  /** Whether that call is here, under the id it has now. */
  holds(call: Call): boolean {
    return this.get(call.wireId) === call;
  }

  /** Ids grow from call to call. */
  set(id: number, call: Call): void {
    if (this.size === 0) {
      this.#items.length = 0;
      this.#gap = 0;
      this.#firstId = id;
    }
    this.#items[id - this.#firstId] = call;
    this.size += 1;
  }

  delete(id: number): void {
    if (!this.get(id)) return;
    this.#items[id - this.#firstId] = undefined;
    this.size -= 1;
    while (this.#gap < this.#items.length && this.#items[this.#gap] === undefined) this.#gap += 1;
    if (this.#gap < MAX_GAP || this.size === 0) return;
    this.#items = this.#items.slice(this.#gap);
    this.#firstId += this.#gap;
    this.#gap = 0;
  }

  clear(): void {
    this.#items = [];
    this.#gap = 0;
    this.size = 0;
  }

  *values(): Generator<Call> {
    for (let i = this.#gap; i < this.#items.length; i++) {
      const call = this.#items[i];
      if (call) yield call;
    }
  }
}
