import type { Socket } from "node:net";
import type { Outcome } from "../model/outcome.ts";
import { INITIAL_CREDIT_BYTES } from "./frames.ts";
import type { Lane, SlotCall } from "./slots/capacity.ts";
import type { CallPhase } from "./wire-order.ts";
import type { HttpRequest } from "../model/http-request.ts";
import type { ResponseHead } from "../kit/http/response-parser.ts";

/** One yield of a generator: text as it is, or any other value as JSON. */
export type Chunk = {
  readonly isText: boolean;
  readonly bytes: Buffer;
  /** What it cost of the generator's credit. */
  readonly wireBytes: number;
};

/** Who waits for a call. */
export type CallReader = {
  /** The function gave an iterator: chunks follow, then the end. */
  onStream?(): void;
  onChunk?(chunk: Chunk): void;
  /** A server waits for the request's body. */
  onContinue?(): void;
  /** A server has begun to answer: its body goes into what this gives, if anything; then the end. */
  onResponse?(head: ResponseHead, flow: ResponseFlow): ResponseSink | null;
  /** A server agrees to a WebSocket: the connection to it, what has come on it so far, and whom to tell of its end. */
  onUpgrade?(head: ResponseHead, app: Socket, rest: Buffer, onOver: ConversationEnd): Conversation | null;
  /** Exactly once. */
  onEnd(outcome: Outcome): void;
};

/**
 * How much a reader grants at a time. It is a quarter of the credit that a generator starts with, which therefore never
 * waits for what its reader holds back.
 */
export const GRANT_BYTES = INITIAL_CREDIT_BYTES / 4;

/** The replica that holds a call, as far as a call's reader needs it. */
export type CallHolder = {
  readonly id: string;
  readonly readyAt: number;
  /** Lets a generator send so many more bytes. */
  grant(call: Call, bytes: number): void;
};

/** What carries a call to a server. */
type CallExchange = {
  /** Nobody wants its answer. */
  cancel(): void;
  /** Its server has gone. */
  destroy(): void;
  /** The replica ends: those who talk are told to come again. */
  retire(): void;
};

/**
 * One run handed to one replica.
 *
 * waiting → handed → done, and back from handed to waiting when it is withdrawn before it began or when its
 * replica died before it began. `hasEnded` is what the reader knows; the slot is free only when the replica
 * has said so, which for a call that was cancelled or timed out comes later.
 */
export class Call implements SlotCall {
  readonly runId: string;
  readonly functionName: string;
  readonly body: Buffer;
  readonly reader: CallReader;
  readonly lane: Lane;
  /** What a server is sent; null for a call of a function. */
  readonly http: HttpCallRequest | null;
  /** What carries it to a server and back. */
  exchange: CallExchange | null = null;
  /** What a server has got and sent of it; null until it has been sent. */
  traffic: Traffic | null = null;
  /** It goes on for as long as those who talk like: no time limit of calls holds for it. */
  isEndless = false;
  /** The id on its replica's wire; 0 while waiting. */
  wireId = 0;
  holder: CallHolder | null = null;
  /** How far it has come on that wire. */
  phase: CallPhase = "handed";
  /** How many more bytes of chunks it may send; while any are left, a chunk of any size. */
  creditBytes = 0;
  hasEnded = false;
  isCancelled = false;
  /** Monotonic milliseconds. */
  enqueuedAt = 0;
  handedAt = 0;
  /** The count of milliseconds with a ready replica, when the call began to wait. */
  readyMsAtStart = 0;
  /** Milliseconds of the wait in which no replica was ready. */
  coldMs = 0;

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

  farewell(): void {
    this.exchange?.retire();
  }

  /** Tells the reader how it ended, the first time. */
  end(outcome: Outcome): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.reader.onEnd(outcome);
  }
}

/** A request's body that comes piece by piece. */
export type BodySource = {
  /** How many bytes it has; null where only its end tells. */
  readonly length: number | null;
  /** Begins to read; `take` gives whether more may come at once, and calls `onSent` when nobody needs the bytes. */
  start(
    take: (bytes: Buffer, onSent?: () => void) => boolean,
    end: (trailers: readonly string[]) => void,
  ): void;
  /** `take` said no before: now there is room again. */
  resume(): void;
  /** The rest is of no use to anybody. */
  stop(): void;
};

/** A request on its way to a server. */
export type HttpCallRequest = HttpRequest & {
  readonly body: Buffer | BodySource;
  /** How much of the response's body is kept beside what its caller gets. */
  readonly keptBytes: number;
  /** A response whose body is larger than that has failed: somebody will ask for it. */
  readonly mustKeep: boolean;
  /** It asks for a WebSocket. */
  readonly isUpgrade?: boolean;
};

/** How many bytes of bodies, or of a WebSocket's frames, a server has got and sent. */
type Traffic = { readonly requestBytes: number; readonly responseBytes: number };

/** A connection of two who talk as they like, a WebSocket. */
export type Conversation = Traffic & {
  /** Says goodbye to both; nothing more passes. */
  close(code: number, reason: string): void;
};

/** Tells of its end; `isCut`: the app has broken it off. */
export type ConversationEnd = (isCut: boolean) => void;

/** Where a response's body goes. */
export type ResponseSink = {
  /**
   * Gives whether more may come at once; if not, `resume` of the flow is called later. `onSent` is called when the sink
   * does not need the bytes any more.
   */
  write(bytes: Buffer, onSent?: () => void): boolean;
  trailers(trailers: readonly string[]): void;
};

/** Holds a response back while its sink is full. */
export type ResponseFlow = { pause(): void; resume(): void };

export type { ResponseHead };

/** Room for so many ended calls before the table is made anew. */
const MAX_GAP = 1024;

/**
 * Calls by their ids on a wire, which grow, oldest first. Not a `Map`: when one makes itself anew it leaves its old
 * table behind with what was in it and a pointer to the new one. Once such a table is old, the young generation's
 * collector takes all of them for living; every call then survived to the next full collection, at 13 µs a call.
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

  has(id: number): boolean {
    return this.get(id) !== undefined;
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
    if (!this.has(id)) return;
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
