import type { Socket } from "node:net";
import type { Outcome } from "../model/outcome.ts";
import { INITIAL_CREDIT_BYTES } from "./frames.ts";
import type { Conversation, ConversationEnd, HttpCallRequest } from "./server/http-exchange.ts";
import type { ResponseFlow, ResponseHead, ResponseSink, Traffic } from "./server/http-exchange.ts";
import type { Lane, SlotCall } from "./slots/slot-call.ts";
import type { CallPhase } from "./wire-order.ts";

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
