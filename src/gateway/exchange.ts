import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { AppError } from "../model/errors.ts";
import { answerMoved, EVENTS_HEADER } from "../nodes/forward/hop-head.ts";
import type { FromPeer } from "../nodes/peer-listener.ts";
import type { RunTiming } from "../runs/live-run.ts";
import { msText, respondError } from "../runs/response.ts";
import type { RunResponse } from "../runs/response.ts";
import type { Cors, Exposure } from "./cors.ts";
import { isSoonOver } from "./body.ts";
import type { RequestHead } from "./request-head.ts";
import type { UnreadAnswers } from "./unread-answers.ts";
import { Condition } from "../kit/concurrency.ts";
import type { Clock } from "../kit/clock.ts";
import { withTimeout } from "../kit/clock.ts";

const RESET_CONTENT = 205;
/** Up to here copying a body into a string costs less than a vectored write. */
const ONE_WRITE_BYTES = 16 * 1024;

/** The edge, where what went wrong becomes an answer. */
type OnFault = (exchange: Exchange, error: unknown) => void;

/** Does something for a caller, who may go before it is done. */
export type GoneListener = { onGone(): void };

/** What all exchanges of a gateway share. */
export type ExchangeParts = {
  readonly cors: Cors;
  readonly onFault: OnFault;
  readonly open: OpenExchanges;
  readonly unread: UnreadAnswers;
  /** Tells the node that passed a request on that the connection of its answer was closed here. */
  readonly tellDropped?: (nodeId: string, requestId: string) => void;
};

/**
 * One request and its one answer. It is open until the answer's head has left or the caller has gone, and whatever
 * happens it does not stay open: a gateway that stops counts those that did.
 */
export class Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** On a run call the run's id; on a replay the id of the run that is answered again. */
  id: string;
  readonly #parts: ExchangeParts;
  /** Among the open ones. */
  index = 0;
  isAwaited = false;
  #isOpen = true;
  #isEvents = false;
  /**
   * Who is told when the connection closes before the whole answer has left. An object that is there anyway, not a
   * closure: with one per call all that a call holds outlived the young generation, at 10 µs a call.
   */
  goneListener: GoneListener | null = null;
  /** Where it counts until its answer has left. */
  connection: { pending: number } | null = null;
  /** The sender's address as a trusted proxy forwarded it; null if the connection's own address counts. */
  ip: string | null = null;
  /** Set where another node has passed it on. */
  from: FromPeer | null = null;
  /** Called once its sender is known, if unknown senders are being counted. */
  onKnown: (() => void) | null = null;
  /** Whether the request came to the app's own host, not to the shared origin. */
  isOnAppHost = false;
  /** Null until the head is known to be well-formed. */
  head: RequestHead | null = null;
  /** Whatever follows on the connection is ignored. */
  isLast = false;

  constructor(request: IncomingMessage, response: ServerResponse, id: string, parts: ExchangeParts) {
    this.request = request;
    this.response = response;
    this.id = id;
    this.#parts = parts;
    parts.open.add(this);
    response.on("close", () => {
      this.#settle();
      if (this.connection) this.connection.pending -= 1;
      if (!response.writableFinished) this.goneListener?.onGone();
    });
  }

  /** The address that it came from, to this node or to the one that passed it on. */
  get remote(): string {
    return this.from?.remote ?? this.request.socket.remoteAddress ?? "";
  }

  /** Does a part of the work; whatever it throws, now or later, is answered and ends nothing else. */
  attempt(work: () => void | Promise<void>): void {
    try {
      work()?.catch((error: unknown) => this.fault(error));
    } catch (error) {
      this.fault(error);
    }
  }

  /** Something went wrong on the way to the answer: that is the answer. */
  fault(error: unknown): void {
    this.#parts.onFault(this, error);
  }

  /** Sends the answer; a second one, or one to a caller who has gone, goes nowhere. */
  answer(answer: RunResponse, timing?: RunTiming): void {
    const { request, response, head } = this;
    if (response.headersSent || response.destroyed) {
      this.#settle();
      return;
    }
    const headers = ["x-request-id", this.id];
    if (answer.contentType !== null) {
      headers.push("content-type", answer.contentType, "content-length", String(answer.body.length));
    } else if (answer.status === RESET_CONTENT) {
      // Unlike 204 and 304 it has no end of its own: without a length Node would send it in chunks.
      headers.push("content-length", "0");
    }
    if (timing) headers.push("server-timing", serverTiming(timing));
    addAll(headers, answer.headers);
    if (head && head.origin !== null) addAll(headers, this.#parts.cors.headers(head.origin));
    const isCutOff = !request.complete && !(head && isSoonOver(head));
    if (this.isLast || isCutOff) headers.push("connection", "close");
    response.writeHead(answer.status, headers);
    this.#settle();
    // As one string head and body leave in one plain write; a buffer would go as a second vector.
    if (answer.body.length <= ONE_WRITE_BYTES) response.end(answer.body.toString("latin1"), "latin1");
    else response.end(answer.body);
    this.noteWritten();
    // The rest of a refused body is ignored.
    if (!request.complete) request.resume();
  }

  /** Sends the head of an answer whose body follows piece by piece; `exposure`: who says what pages may read of it. */
  open(status: number, headers: string[], timing: RunTiming | null, exposure: Exposure = "ours"): void {
    // Before what frames the body: Python's own HTTP client takes a head that breaks off for a whole one.
    headers.unshift("x-request-id", this.id);
    if (this.from && this.#isEvents) headers.unshift(EVENTS_HEADER, "1");
    if (timing) headers.push("server-timing", serverTiming(timing));
    const origin = exposure === "app" ? null : (this.head?.origin ?? null);
    if (origin !== null) addAll(headers, this.#parts.cors.headers(origin, exposure));
    if (this.isLast) headers.push("connection", "close");
    this.response.writeHead(status, headers);
    this.#settle();
  }

  /** The same for a stream of events. */
  openEvents(headers: string[], timing: RunTiming | null): void {
    this.#isEvents = true;
    this.open(200, headers, timing);
  }

  /** Ends an answer that was opened, with its last piece. */
  close(last: Buffer | null): void {
    const { response } = this;
    if (last && last.length <= ONE_WRITE_BYTES) response.end(last.toString("latin1"), "latin1");
    else response.end(last ?? undefined);
    this.noteWritten();
  }

  /** Sends it back to the node that has passed it on. */
  answerMoved(): void {
    answerMoved(this.request, this.response);
    this.#settle();
  }

  /** The head of an answer has left that somebody else gives. */
  noteOpened(): void {
    this.#settle();
  }

  /** All of the answer is written: what the kernel has not taken at once waits for a reader, who may never come. */
  noteWritten(): void {
    const { request, response } = this;
    const { socket } = response;
    if (!socket || socket.writableLength > 0) this.#parts.unread.add(request.socket, response);
  }

  /** Its connection carries something else from now on; what counts until its end still does. */
  takeOver(): Socket {
    const { request, response } = this;
    const { socket } = request;
    response.detachSocket(socket);
    this.goneListener = null;
    this.#settle();
    socket.once("close", () => response.emit("close"));
    return socket;
  }

  /** Answers with an error. If the head of another answer has left, only closing the connection can signal it. */
  fail(error: AppError): void {
    const { response } = this;
    if (response.headersSent && !response.writableEnded) response.destroy();
    else this.answer(respondError(this.id, error));
  }

  /** Answers with an error a request whose rest will not come: whoever works on it already is not to go on. */
  breakOff(error: AppError): void {
    this.fail(error);
    this.goneListener?.onGone();
  }

  /** Closes the connection of an answer whose caller may read no more, or does not read. */
  drop(): void {
    this.response.destroy();
    this.tellDropped();
  }

  /** The node that passed it on does not see that its connection is closed while it takes nothing from it. */
  tellDropped(): void {
    if (this.from) this.#parts.tellDropped?.(this.from.from, this.id);
  }

  answerJson(status: number, value: object, headers: Readonly<Record<string, string>> = {}): void {
    const body = Buffer.from(JSON.stringify(value));
    this.answer({ status, contentType: "application/json", body, headers, error: null });
  }

  /** The answer to a browser that asks whether a page may call. */
  answerPreflight(): void {
    const asked = this.request.headers["access-control-request-headers"];
    const headers = this.#parts.cors.preflight(this.head?.origin ?? "", asked);
    this.response.writeHead(204, { ...headers, "x-request-id": this.id }).end();
    this.#settle();
  }

  #settle(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#parts.open.remove(this);
  }
}

function addAll(list: string[], headers: Readonly<Record<string, string>>): void {
  for (const name in headers) list.push(name, headers[name] ?? "");
}

function serverTiming({ queueMs, startMs, runMs }: RunTiming): string {
  const waits = `queue;dur=${msText(queueMs)}, start;dur=${msText(startMs)}`;
  return runMs === null ? waits : `${waits}, run;dur=${msText(runMs)}`;
}

/** A request, as far as it matters here. */
type OpenExchange = {
  readonly request: { readonly complete: boolean };
  /** Among the open ones. */
  index: number;
  /** Whether a gateway that is closing waits for it. */
  isAwaited: boolean;
};

/** The requests of a gateway that have no answer yet. */
export class OpenExchanges {
  /** In no order, each with its place: a map or a set costs the garbage collector more (`call-table.ts`). */
  readonly #open: OpenExchange[] = [];
  readonly #settled = new Condition();
  /** How many are waited for and still open: an answer must not cost a look at all the others. */
  #awaited = 0;

  add(exchange: OpenExchange): void {
    exchange.index = this.#open.push(exchange) - 1;
  }

  /** It has its answer, or nobody waits for one any more. */
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

  /** Those that have arrived whole: their callers have nothing left to do but wait. */
  get waiting(): number {
    return this.#open.filter(({ request }) => request.complete).length;
  }

  /** Resolves with how many are left without an answer when all have one, or the time is over. */
  async settle(patienceMs: number, clock: Clock): Promise<number> {
    const none = async (): Promise<void> => {
      // Again when those have their answers: other requests may have arrived whole meanwhile.
      while (this.#awaitAll() > 0) await this.#settled.wait();
    };
    await withTimeout(patienceMs, none(), clock);
    return this.waiting;
  }

  /** How many have arrived whole; each of them is waited for from now on. */
  #awaitAll(): number {
    for (const exchange of this.#open) {
      if (exchange.isAwaited || !exchange.request.complete) continue;
      exchange.isAwaited = true;
      this.#awaited += 1;
    }
    return this.#awaited;
  }
}
