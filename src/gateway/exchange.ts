import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { AppError } from "../model/errors.ts";
import { answerMoved, EVENTS_HEADER } from "../nodes/forward/hop-head.ts";
import type { FromPeer } from "../nodes/peer-listener.ts";
import type { RunTiming } from "../runs/live-run.ts";
import { msText, respondError, type RunResponse } from "../runs/response.ts";
import type { Cors, Exposure } from "./cors.ts";
import { isSoonOver } from "./body.ts";
import type { RequestHead } from "./request-head.ts";
import type { UnreadAnswers } from "./unread-answers.ts";
import { Condition } from "../kit/concurrency.ts";
import { type Clock, withTimeout } from "../kit/clock.ts";

const RESET_CONTENT = 205;
/** Up to here copying a body into a string costs less than a vectored write. */
const ONE_WRITE_BYTES = 16 * 1024;

/** Notified when a caller disconnects. */
export type GoneListener = { onGone(): void };

/** What all exchanges of a gateway share. */
export type ExchangeParts = {
  readonly cors: Cors;
  /** Answers with an error that was thrown on the way. */
  readonly onFault: (exchange: Exchange, error: unknown) => void;
  readonly open: OpenExchanges;
  readonly unread: UnreadAnswers;
  /** Tells the node that forwarded a request that the connection of its answer was closed here. */
  readonly tellDropped?: (nodeId: string, requestId: string) => void;
};

/** One request and its one answer, open until the answer's head has been sent or the caller has gone. */
export class Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** On a call the run's id; on a replay that of the earlier run. */
  id: string;
  readonly #parts: ExchangeParts;
  /** Its position in `OpenExchanges`. */
  index = 0;
  isAwaited = false;
  #isOpen = true;
  /** The answer is a stream of events that the service writes. */
  isEvents = false;
  /** Its body may take as long as it keeps coming, which its handler watches. */
  isPaced = false;
  /**
   * Notified when the connection closes before the whole answer was sent. An existing object, not a closure: with a closure
   * per call, everything that a call holds outlived the young generation, at 10 µs a call.
   */
  goneListener: GoneListener | null = null;
  /** The connection whose pending requests it counts among. */
  connection: { pending: number } | null = null;
  /** The caller's address as a trusted proxy reports it; null if the connection's own address counts. */
  ip: string | null = null;
  /** Set if another node forwarded the request. */
  from: FromPeer | null = null;
  /** Called once the caller is authenticated, if unauthenticated ones are counted. */
  onKnown: (() => void) | null = null;
  /** Whether the request came to the app's own host, not to the shared origin. */
  isOnAppHost = false;
  /** Null until the head is known to be well-formed. */
  head: RequestHead | null = null;
  /** The connection closes after this answer. */
  isLast = false;

  constructor(request: IncomingMessage, response: ServerResponse, id: string, parts: ExchangeParts) {
    this.request = request;
    this.response = response;
    this.id = id;
    this.#parts = parts;
    parts.open.add(this);
    response.on("close", () => {
      this.settle();
      if (this.connection) this.connection.pending -= 1;
      if (!response.writableFinished) this.goneListener?.onGone();
    });
  }

  /** The address that connected, to this node or to the one that forwarded the request. */
  get remote(): string {
    return this.from?.remote ?? this.request.socket.remoteAddress ?? "";
  }

  /** The address that is recorded as the caller's. */
  get callerAddress(): string | null {
    return this.ip ?? this.request.socket.remoteAddress ?? null;
  }

  /** Does a part of the work; an error that it throws, also asynchronously, becomes the answer. */
  attempt(work: () => void | Promise<void>): void {
    try {
      work()?.catch((error: unknown) => this.fault(error));
    } catch (error) {
      this.fault(error);
    }
  }

  /** Answers with an error that was thrown. */
  fault(error: unknown): void {
    this.#parts.onFault(this, error);
  }

  /** Sends the answer. Does nothing if there is one already, or if the caller has gone. */
  answer(answer: RunResponse, timing?: RunTiming): void {
    const { request, response, head } = this;
    if (response.headersSent || response.destroyed) return this.settle();
    const headers = ["x-request-id", this.id];
    if (answer.contentType !== null) {
      headers.push("content-type", answer.contentType, "content-length", String(answer.body.length));
    } else if (answer.status === RESET_CONTENT) {
      // Unlike 204 and 304 it may have a body: without a length Node would send it in chunks.
      headers.push("content-length", "0");
    }
    if (timing) headers.push("server-timing", serverTiming(timing));
    addAll(headers, answer.headers);
    if (head && head.origin !== null) addAll(headers, this.#parts.cors.headers(head.origin));
    const isCutOff = !request.complete && !(head && isSoonOver(head));
    if (this.isLast || isCutOff) headers.push("connection", "close");
    response.writeHead(answer.status, headers);
    this.settle();
    this.close(answer.body);
    // Discards the rest of a refused body.
    if (!request.complete) request.resume();
  }

  /** Sends the head of an answer whose body follows in pieces. */
  open(status: number, headers: string[], timing: RunTiming | null, exposure: Exposure = "ours"): void {
    // Before the headers that frame the body: Python's HTTP client accepts a head that is cut off.
    headers.unshift("x-request-id", this.id);
    if (this.from && this.isEvents) headers.unshift(EVENTS_HEADER, "1");
    if (timing) headers.push("server-timing", serverTiming(timing));
    const origin = exposure === "app" ? null : (this.head?.origin ?? null);
    if (origin !== null) addAll(headers, this.#parts.cors.headers(origin, exposure));
    if (this.isLast) headers.push("connection", "close");
    this.response.writeHead(status, headers);
    this.settle();
  }

  /** Ends an answer whose head was sent, with its last piece. */
  close(last: Buffer | null): void {
    const { response } = this;
    // As one string, head and body are sent in one plain write; a buffer would be a second vector.
    if (last && last.length <= ONE_WRITE_BYTES) response.end(last.toString("latin1"), "latin1");
    else response.end(last ?? undefined);
    this.noteWritten();
  }

  /** Returns the request to the node that forwarded it. */
  answerMoved(): void {
    answerMoved(this.request, this.response);
    this.settle();
  }

  /** The whole answer is written; what the kernel has not taken yet may stay unread. */
  noteWritten(): void {
    const { request, response } = this;
    const { socket } = response;
    if (!socket || socket.writableLength > 0) this.#parts.unread.add(request.socket, response);
  }

  /** The answer has begun, and takes long: its connection is closed once the caller reads nothing for too long. */
  noteBegun(): void {
    this.#parts.unread.add(this.request.socket, this.response);
  }

  /** Detaches the connection from HTTP, for a WebSocket. The exchange still ends when it closes. */
  takeOver(): Socket {
    const { request, response } = this;
    const { socket } = request;
    response.detachSocket(socket);
    this.goneListener = null;
    this.settle();
    socket.once("close", () => response.emit("close"));
    return socket;
  }

  /** Answers with an error. If another answer has begun, closing the connection is the only signal left. */
  fail(error: AppError): void {
    const { response } = this;
    if (response.headersSent && !response.writableEnded) response.destroy();
    else this.answer(respondError(this.id, error));
  }

  /** Answers with an error a request whose rest will not arrive, and stops the work on it. */
  breakOff(error: AppError): void {
    this.fail(error);
    this.goneListener?.onGone();
  }

  /** Closes the connection of a caller that does not read, or may not read any more. */
  drop(): void {
    this.response.destroy();
    this.tellDropped();
  }

  /** A node that forwarded the request does not notice the closed connection while its caller does not read. */
  tellDropped(): void {
    if (this.from) this.#parts.tellDropped?.(this.from.from, this.id);
  }

  answerJson(status: number, value: object, headers: Readonly<Record<string, string>> = {}): void {
    const body = Buffer.from(JSON.stringify(value));
    this.answer({ status, contentType: "application/json", body, headers, error: null });
  }

  /** Answers a CORS preflight. */
  answerPreflight(): void {
    const asked = this.request.headers["access-control-request-headers"];
    const headers = this.#parts.cors.preflight(this.head?.origin ?? "", asked);
    this.response.writeHead(204, { ...headers, "x-request-id": this.id }).end();
    this.settle();
  }

  /** The head of the answer was sent, by this exchange or by a forwarded answer. */
  settle(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#parts.open.remove(this);
  }
}

function addAll(list: string[], headers: Readonly<Record<string, string>>): void {
  for (const name in headers) list.push(name, headers[name] ?? "");
}

function serverTiming({ queueMs, startMs, setupMs, runMs }: RunTiming): string {
  const setup = setupMs > 0 ? msText(setupMs) : "0";
  // Differences of times are rarely exactly 0.
  const ofStart = setup === "0" ? "" : `, setup;dur=${setup}`;
  const waits = `queue;dur=${msText(queueMs)}, start;dur=${msText(startMs)}${ofStart}`;
  return runMs === null ? waits : `${waits}, run;dur=${msText(runMs)}`;
}

/** `isAwaited`: whether a closing gateway waits for it. */
type OpenExchange = { readonly request: { readonly complete: boolean }; index: number; isAwaited: boolean };

/** The requests of a gateway that have no answer yet. */
export class OpenExchanges {
  /** Unordered, each with its index: a map or a set costs the garbage collector more (see `CallTable`). */
  readonly #open: OpenExchange[] = [];
  readonly #settled = new Condition();
  /** How many are awaited and still open, counted so that an answer does not scan all others. */
  #awaited = 0;

  add(exchange: OpenExchange): void {
    exchange.index = this.#open.push(exchange) - 1;
  }

  remove(exchange: OpenExchange): void {
    const last = this.#open.pop();
    if (last && last !== exchange) {
      this.#open[exchange.index] = last;
      last.index = exchange.index;
    }
    if (!exchange.isAwaited) return;
    exchange.isAwaited = false;
    this.#awaited -= 1;
    if (this.#awaited === 0) this.#settled.notify();
  }

  /** How many requests have arrived completely. */
  get waiting(): number {
    return this.#open.filter(({ request }) => request.complete).length;
  }

  /** Waits until all have answers, or the time is over; resolves with the number left. */
  async settle(patienceMs: number, clock: Clock): Promise<number> {
    const none = async (): Promise<void> => {
      // Other requests may have become complete meanwhile.
      while (this.#awaitAll() > 0) await this.#settled.wait();
    };
    await withTimeout(patienceMs, none(), clock);
    return this.waiting;
  }

  /** Marks every complete request as awaited; returns how many are. */
  #awaitAll(): number {
    for (const exchange of this.#open) {
      if (exchange.isAwaited || !exchange.request.complete) continue;
      exchange.isAwaited = true;
      this.#awaited += 1;
    }
    return this.#awaited;
  }
}
