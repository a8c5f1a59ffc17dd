import type { Clock } from "../../kit/clock.ts";
import { KeptBody, releaseBytes } from "../../kit/bytes.ts";
import { type Connection, type ConnectionUser, writeChunk } from "../../kit/http/connection.ts";
import { BadResponse, fieldLines } from "../../kit/http/fields.ts";
import { type ResponseEvents, type ResponseHead, ResponseParser } from "../../kit/http/response-parser.ts";
import { headerOf } from "../../model/http-request.ts";
import type { Outcome } from "../../model/outcome.ts";
import type { BodySource, Call, Conversation, HttpCallRequest, ResponseSink } from "../call.ts";
import type { Connections } from "./connections.ts";

/** Exactly one of these is called. */
export type HttpCallEvents = {
  onOutcome(call: Call, outcome: Outcome): void;
  /** The server ended the connection before its answer was whole; its process may just be ending. */
  onCut(call: Call, message: string): void;
  /** Nothing was sent: the call can go to any replica. */
  onUnsent(call: Call): void;
};

/** Idempotent methods: lost with an idle connection, they are sent again. */
const REPEATABLE = new Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"]);
/** Methods whose requests carry a content-length even without a body. */
const LENGTH_EXPECTED = new Set(["POST", "PUT", "PATCH"]);
/** Up to here copying a body into a string costs less than a second write. */
const ONE_WRITE_BYTES = 16 * 1024;
/** WebSocket close codes. */
const GOING_AWAY = 1001;
const INTERNAL_ERROR = 1011;
const SERVICE_RESTART = 1012;
const MAX_TYPE_CHARS = 255;

/** One request to a server, and its response as it comes. */
export class HttpCall implements ConnectionUser, ResponseEvents {
  readonly #call: Call;
  readonly #request: HttpCallRequest;
  readonly #connections: Connections;
  readonly #events: HttpCallEvents;
  readonly #clock: Pick<Clock, "monotonic">;
  #connection: Connection | null = null;
  #parser: ResponseParser;
  #isReused = false;
  #hasBegun = false;
  #hasSentBody = false;
  #isOver = false;
  #head: ResponseHead | null = null;
  #sink: ResponseSink | null = null;
  #kept: KeptBody | null = null;
  #conversation: Conversation | null = null;
  readonly #traffic = { requestBytes: 0, responseBytes: 0 };

  constructor(
    call: Call,
    request: HttpCallRequest,
    connections: Connections,
    events: HttpCallEvents,
    clock: Pick<Clock, "monotonic">,
  ) {
    this.#call = call;
    this.#request = request;
    this.#connections = connections;
    this.#events = events;
    this.#clock = clock;
    this.#parser = new ResponseParser(request.method, this, request.isUpgrade);
  }

  start(): void {
    const { isUpgrade = false } = this.#request;
    const idle = isUpgrade ? null : this.#connections.take(this);
    this.#isReused = idle !== null;
    this.#connection = idle ?? this.#connections.open(this, isUpgrade);
    if (idle) this.#send(idle);
  }

  cancel(): void {
    this.#conversation?.close(GOING_AWAY, "the run was cancelled");
    this.destroy();
  }

  /** Closes the connection to the server; no event follows. */
  destroy(): void {
    this.#isOver = true;
    if (!Buffer.isBuffer(this.#request.body)) this.#request.body.stop();
    if (this.#conversation) this.#conversation.close(INTERNAL_ERROR, "the app's process ended");
    else this.#connection?.socket.destroy();
  }

  retire(): void {
    this.#conversation?.close(SERVICE_RESTART, "the app's replica ends; connect again");
  }

  onOpen(): void {
    if (this.#connection) this.#send(this.#connection);
  }

  onData(data: Buffer): void {
    if (this.#isOver) return;
    try {
      this.#parser.feed(data);
    } catch (error) {
      if (!(error instanceof BadResponse)) throw error;
      this.#finish({ kind: "broken", message: told(error.message), runMs: this.#runMs() });
    }
  }

  onDrain(): void {
    const { body } = this.#request;
    if (!Buffer.isBuffer(body)) body.resume();
  }

  onLost(): void {
    if (this.#isOver) return;
    if (!this.#hasBegun) {
      this.#isOver = true;
      this.#events.onUnsent(this.#call);
      return;
    }
    if (this.#mayRepeat()) {
      this.#parser = new ResponseParser(this.#request.method, this);
      this.#isReused = false;
      this.#hasBegun = false;
      this.#connection = this.#connections.open(this);
      return;
    }
    try {
      this.#parser.close();
    } catch (error) {
      if (!(error instanceof BadResponse)) throw error;
      this.destroy();
      this.#events.onCut(this.#call, told(error.message));
    }
  }

  onContinue(): void {
    if (!this.#call.hasEnded) this.#call.reader.onContinue?.();
  }

  onUpgrade(head: ResponseHead, rest: Buffer): void {
    const connection = this.#connection;
    if (this.#isOver || !connection || this.#call.hasEnded) return;
    this.#isOver = true;
    this.#call.isEndless = true;
    const app = connection.detach();
    const onOver = (isCut: boolean): void => {
      if (isCut)
        this.#events.onCut(this.#call, "The app's server ended the WebSocket without a close frame.");
      else this.#responded(head.status, null, null);
    };
    this.#conversation = this.#call.reader.onUpgrade?.(head, app, rest, onOver) ?? null;
    if (this.#conversation) this.#call.traffic = this.#conversation;
    else app.destroy();
  }

  onHead(head: ResponseHead): void {
    const { keptBytes, mustKeep } = this.#request;
    this.#head = head;
    const encoding = headerOf(head.headers, "content-encoding");
    // A stored body has no header that names its encoding.
    const isPlain = mustKeep || encoding === null || encoding.toLowerCase() === "identity";
    this.#kept = isPlain ? new KeptBody(keptBytes) : null;
    if (mustKeep && (head.length ?? 0) > keptBytes) return this.#refuse();
    if (!this.#call.hasEnded) this.#sink = this.#call.reader.onResponse?.(head, this) ?? null;
  }

  onBody(bytes: Buffer): void {
    if (this.#isOver) return;
    this.#traffic.responseBytes += bytes.length;
    this.#kept?.add(bytes);
    if (this.#request.mustKeep && this.#kept?.isTooLarge) return this.#refuse();
    if (!this.#sink) return;
    // Kept bytes are needed after they are sent.
    const isNeeded = this.#kept !== null && !this.#kept.isTooLarge;
    const hasRoom = isNeeded ? this.#sink.write(bytes) : this.#sink.write(bytes, () => releaseBytes(bytes));
    if (!hasRoom) this.pause();
  }

  pause(): void {
    if (!this.#isOver) this.#connection?.socket.pause();
  }

  /** The sink has room again. */
  resume(): void {
    if (!this.#isOver) this.#connection?.socket.resume();
  }

  onEnd(trailers: readonly string[], isReusable: boolean): void {
    const head = this.#head;
    if (this.#isOver || !head) return;
    this.#isOver = true;
    if (trailers.length > 0) this.#sink?.trailers(trailers);
    const connection = this.#connection;
    // The server did not wait for the body: the next request would follow the rest of it.
    if (!this.#hasSentBody && !Buffer.isBuffer(this.#request.body)) this.#request.body.stop();
    // A connection for a WebSocket may be half closed.
    const mayCarryMore = isReusable && this.#hasSentBody && !this.#request.isUpgrade;
    if (mayCarryMore && connection) this.#connections.release(connection);
    else connection?.socket.destroy();
    this.#responded(head.status, typeOf(head), this.#kept?.whole() ?? null);
  }

  #responded(status: number, contentType: string | null, body: Buffer | null): void {
    const outcome = { kind: "responded", status, contentType, body, runMs: this.#runMs() } as const;
    this.#events.onOutcome(this.#call, outcome);
  }

  #runMs(): number {
    return this.#clock.monotonic() - this.#call.handedAt;
  }

  /** An idle connection that ends as it is used again was closed before the server read the request. */
  #mayRepeat(): boolean {
    const { method, body } = this.#request;
    return this.#isReused && this.#head === null && Buffer.isBuffer(body) && REPEATABLE.has(method);
  }

  #send({ socket }: Connection): void {
    const { body } = this.#request;
    this.#hasBegun = true;
    this.#call.traffic = this.#traffic;
    const head = this.#headText(body.length);
    if (!Buffer.isBuffer(body)) {
      socket.write(head, "latin1");
      return this.#sendPieces(body, body.length === null, socket);
    }
    this.#hasSentBody = true;
    this.#traffic.requestBytes = body.length;
    if (body.length <= ONE_WRITE_BYTES) socket.write(head + body.toString("latin1"), "latin1");
    else {
      socket.write(head, "latin1");
      socket.write(body);
    }
  }

  #sendPieces(body: BodySource, isChunked: boolean, socket: Connection["socket"]): void {
    body.start(
      (bytes, onSent) => {
        this.#traffic.requestBytes += bytes.length;
        return isChunked ? writeChunk(socket, bytes, onSent) : socket.write(bytes, onSent);
      },
      (trailers) => {
        this.#hasSentBody = true;
        if (isChunked) socket.write(`0\r\n${fieldLines(trailers)}\r\n`, "latin1");
      },
    );
  }

  #headText(bodyLength: number | null): string {
    const { method, target, headers } = this.#request;
    const text = `${method} ${target} HTTP/1.1\r\n${fieldLines(headers)}${traceLines(this.#call)}`;
    if (bodyLength === null) return `${text}transfer-encoding: chunked\r\n\r\n`;
    if (bodyLength === 0 && !LENGTH_EXPECTED.has(method)) return `${text}\r\n`;
    return `${text}content-length: ${bodyLength}\r\n\r\n`;
  }

  #refuse(): void {
    const message = `The response is larger than max_result (${this.#request.keptBytes} bytes).`;
    this.#finish({ kind: "unsendable", code: "result_too_large", message, runMs: this.#runMs() });
  }

  #finish(outcome: Outcome): void {
    if (this.#isOver) return;
    this.destroy();
    this.#events.onOutcome(this.#call, outcome);
  }
}

/** Anew for each attempt: the headers of a request come without them. */
function traceLines({ trace }: Call): string {
  if (!trace) return "";
  const { traceparent, tracestate } = trace;
  return fieldLines(["traceparent", traceparent, ...(tracestate === null ? [] : ["tracestate", tracestate])]);
}

/** The stored content type; null if it is unreasonably long. */
function typeOf({ headers }: ResponseHead): string | null {
  const type = headerOf(headers, "content-type");
  return type !== null && type !== "" && type.length <= MAX_TYPE_CHARS ? type : null;
}

function told(message: string): string {
  return `The app's server did not answer with a valid HTTP response: ${message}.`;
}
