import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../../kit/clock.ts";
import { type Connection, type ConnectionUser, writeChunk } from "../../kit/http/connection.ts";
import { BadResponse, fieldLines } from "../../kit/http/fields.ts";
import { MAX_RESPONSE_HEAD_BYTES, ResponseParser } from "../../kit/http/response-parser.ts";
import type { ResponseEvents, ResponseHead } from "../../kit/http/response-parser.ts";
import { releaseBytes } from "../../kit/bytes.ts";
import { Tunnel, WaitingCaller } from "../../kit/websocket/tunnel.ts";
import type { HostedApp } from "../../model/names.ts";
import { AppError } from "../../model/errors.ts";
import { headerOf } from "../../model/http-request.ts";
import type { Droppable, Peer, Peers } from "../peers.ts";
import { ForwardedAnswer, ONE_WRITE_BYTES, isEvents, lostEvent } from "./forwarded-answer.ts";
import type { AnswerParts } from "./forwarded-answer.ts";
import { BROKEN_OFF_TRAILER, MOVED_HEADER, MOVED_STATUS, hopHead } from "./hop-head.ts";
import type { HopHead, Purpose } from "./hop-head.ts";
import type { AppKey, Locator } from "./app-locator.ts";

/**
 * The result of sending a request to another node:
 * - done: answered, or the caller has gone, or an event in its stream told it that the node was lost;
 * - moved: that node does not have the app and did not start the request;
 * - unreached: nothing was sent;
 * - lost: the connection ended before the answer did; the request may have been executed.
 */
export type ForwardResult = "done" | "moved" | "unreached" | "lost";

export type ForwardParts = AnswerParts & {
  readonly purpose: Exclude<Purpose, "node">;
  /** The address that the request came from. */
  readonly remote: string;
  /** The app whose own host the request came to; null on the shared origin. */
  readonly hostOf: HostedApp | null;
  readonly peers: Peers;
  readonly clock: Clock;
  /** The whole body, if it has been read already. */
  readonly body?: Buffer;
  /** For a WebSocket handshake. */
  readonly upgrade?: {
    /** Bytes received together with the handshake. */
    readonly first: Buffer;
    /** Detaches the connection from HTTP. */
    readonly takeOver: () => Socket;
    readonly onTunnel: (tunnel: Tunnel) => void;
    readonly onOver: (tunnel: Tunnel) => void;
  };
};

const REQUEST_ID = "x-request-id";
/** A body up to this size is read first and sent with the head, while there is room. */
const LITTLE_BYTES = 64 * 1024;
/** Safe to send again when a reused connection breaks. */
const REPEATABLE = new Set(["GET", "HEAD"]);
/** An app's head plus what its node adds. */
const MAX_HEAD_BYTES = MAX_RESPONSE_HEAD_BYTES + 8 * 1024;
/** The node that owns the app enforces these. */
const NO_LIMITS = { maxAgeMs: Infinity, idleMs: Infinity, stallMs: Infinity };
/** Ownership may move again while nodes take over from a dead one; the request has not started before the last try. */
const MAX_TRIES = 5;
const UNREACHED = {
  message: "The node that has this app cannot be reached; try again shortly.",
  headers: { "retry-after": "1" },
};
const NOTHING = Buffer.alloc(0);

/**
 * Forwards a request to the app's owner, and to the new owner if the app has moved. Returns whether it was answered or
 * has to be answered here. Throws `node_lost`, or `app_not_ready` if no owner was found.
 */
export async function forward(
  locator: Locator,
  app: AppKey,
  request: ForwardedRequest,
  to: Peer,
): Promise<"done" | "here"> {
  let peer = to;
  try {
    for (let tries = 1; ; tries += 1) {
      const result = await request.to(peer);
      if (result === "done") return result;
      if (result === "lost") throw new AppError("node_lost");
      const place = tries < MAX_TRIES ? await locator.retry(app, peer, result, request.gone) : null;
      if (request.gone.aborted) return "done";
      if (!place) throw new AppError("app_not_ready", UNREACHED);
      if (place.kind === "here") {
        request.giveBack();
        return "here";
      }
      peer = place.peer;
    }
  } finally {
    request.release();
  }
}

/**
 * A request that this node forwards to the app's owner, and the answer on its way back: bytes, at the pace at which
 * each side reads. It may be sent to several nodes in turn, until one has started it.
 */
export class ForwardedRequest implements ConnectionUser, ResponseEvents {
  readonly #parts: ForwardParts;
  readonly #head: HopHead;
  /** A small body, whole; a larger one is read only when a node asks for it. */
  #little: Buffer | null = null;
  readonly #large: ForwardedBody | null;
  /** The share of `Peers.held` that the body takes. */
  #heldBytes: number;
  readonly #caller: WaitingCaller | null;
  #peer: Peer | null = null;
  #connection: Connection | null = null;
  #parser: ResponseParser;
  #isReused = false;
  #hasBegun = false;
  #isMoved = false;
  #isOver = true;
  #hasAnswer = false;
  /** `X-Request-Id` of the answer. */
  #requestId: string | null = null;
  /** The head of the answer, if it is an event stream that the owner's service writes. */
  #events: ResponseHead | null = null;
  readonly #answer: ForwardedAnswer;
  #isGone = false;
  #gone: AbortController | null = null;
  #end: (result: ForwardResult) => void = () => {};

  constructor(parts: ForwardParts) {
    const { request, upgrade, peers, body = null } = parts;
    this.#parts = parts;
    this.#little = body;
    const isUpgrade = upgrade !== undefined;
    const readBytes = body?.length ?? null;
    const littleBytes = peers.held.hasRoom ? LITTLE_BYTES : 0;
    this.#head = hopHead(request, { ...parts, isUpgrade, readBytes, littleBytes });
    const { bodyBytes, isAwaited } = this.#head;
    const isLarge = bodyBytes === null || bodyBytes > littleBytes || (isAwaited && bodyBytes > 0);
    this.#large = isLarge && !body ? new ForwardedBody(request, bodyBytes === null) : null;
    this.#heldBytes = isLarge ? 0 : bodyBytes;
    peers.held.bytes += this.#heldBytes;
    this.#caller = upgrade ? new WaitingCaller(request.socket, upgrade.first) : null;
    this.#parser = this.#newParser();
    this.#answer = new ForwardedAnswer(parts, this);
  }

  /** Aborts when the caller goes. Created on first use, because most calls never need it. */
  get gone(): AbortSignal {
    this.#gone ??= new AbortController();
    if (this.#isGone) this.#gone.abort();
    return this.#gone.signal;
  }

  /** Nothing is sent after this. */
  release(): void {
    const { peers, request } = this.#parts;
    peers.held.bytes -= this.#heldBytes;
    this.#heldBytes = 0;
    // Consumes the end of what `readWhole` read: until now the bytes could be put back.
    if (this.#hasRead) request.resume();
  }

  /** Puts the body back into the stream, for this node to answer the request itself. */
  giveBack(): void {
    if (this.#hasRead) this.#parts.request.unshift(this.#little);
    this.#little = null;
  }

  /** False without a body: that stream may be the socket of a WebSocket by now. */
  get #hasRead(): boolean {
    return !this.#parts.body && this.#little !== null && this.#little.length > 0;
  }

  /** Hands a WebSocket handshake back, with the bytes that its caller has sent. */
  leave(): Buffer | null {
    return this.#caller?.leave() ?? null;
  }

  /** Sends it to a node. May be called again after `moved` or `unreached` only. */
  async to(peer: Peer): Promise<ForwardResult> {
    const { request, response } = this.#parts;
    if (!this.#large) this.#little ??= await readWhole(request, this.#head.bodyBytes ?? 0);
    if (response.destroyed || (!this.#large && !this.#little)) return "done";
    return await new Promise((resolve) => {
      this.#end = resolve;
      this.#peer = peer;
      this.#isOver = false;
      this.#isMoved = false;
      const idle = this.#caller ? null : this.#parts.peers.take(peer, this);
      this.#isReused = idle !== null;
      this.#connect(peer, idle);
    });
  }

  /** The caller has gone or has its answer: stops the other node. */
  onGone(): void {
    this.#isGone = true;
    this.#gone?.abort();
    if (this.#isOver) return;
    this.#drop();
    this.#finish("done");
  }

  onOpen(): void {
    if (!this.#isOver && this.#connection) this.#send(this.#connection);
  }

  onData(data: Buffer): void {
    if (this.#isOver) return;
    try {
      this.#parser.feed(data);
    } catch (error) {
      if (!(error instanceof BadResponse)) throw error;
      this.#drop();
      this.#finish("lost");
    }
    if (!this.#isOver) this.#attempt(() => this.#answer.flush(data));
  }

  /** The caller does not read, so this node stops reading too. */
  pause(): void {
    if (this.#isOver) return;
    this.#connection?.socket.pause();
    this.#watch(this, true);
  }

  resume(): void {
    if (this.#isOver) return;
    this.#watch(this, false);
    this.#connection?.socket.resume();
  }

  /** The other node has closed the connection, which is not visible here while reading is paused. */
  abandon(): void {
    this.#parts.response.destroy();
    this.onGone();
  }

  onDrain(): void {
    this.#large?.resume();
  }

  onLost(): void {
    if (this.#isOver) return;
    if (!this.#hasBegun) this.#finish("unreached");
    else if (this.#peer && this.#mayRepeat()) {
      this.#isReused = false;
      this.#connect(this.#peer, null);
    } else if (this.#events && this.#parser.isBetweenChunks) {
      // Within a message, the event would be read as part of it.
      this.#answer.breakOff(lostEvent(this.#events.headers), this.#parts.clock);
      this.#finish("done");
    } else this.#finish("lost");
  }

  onContinue(): void {
    const { response } = this.#parts;
    if (this.#isOver || response.headersSent || response.destroyed) return;
    if (this.#head.isAwaited) response.writeContinue();
    if (this.#connection) this.#large?.start(this.#connection.socket);
  }

  onUpgrade(head: ResponseHead, rest: Buffer): void {
    const { upgrade, clock } = this.#parts;
    if (this.#isOver || !this.#connection || !upgrade || !this.#caller) return;
    const app = this.#connection.detach();
    const early = this.#caller.leave();
    const client = upgrade.takeOver();
    client.write(`HTTP/1.1 101 Switching Protocols\r\n${fieldLines(head.headers)}\r\n`, "latin1");
    const tunnel: Tunnel = new Tunnel({
      client,
      app,
      limits: NO_LIMITS,
      clock,
      onOver: () => {
        upgrade.onOver(tunnel);
        this.#finish("done");
      },
    });
    upgrade.onTunnel(tunnel);
    this.#requestId = headerOf(head.headers, REQUEST_ID);
    const droppable = { abandon: () => tunnel.destroy() };
    this.#watch(droppable, true);
    client.once("close", () => this.#watch(droppable, false));
    tunnel.begin(early, rest);
  }

  onHead(head: ResponseHead): void {
    this.#hasAnswer = true;
    this.#requestId = headerOf(head.headers, REQUEST_ID);
    this.#isMoved = head.status === MOVED_STATUS && head.headers[0] === MOVED_HEADER;
    if (this.#isMoved) return;
    this.#events = isEvents(head.headers) ? { ...head, headers: head.headers.slice(2) } : null;
    this.#answer.begin(this.#events ?? head);
  }

  onBody(bytes: Buffer): void {
    if (!this.#isOver && !this.#isMoved) this.#attempt(() => this.#answer.add(bytes));
  }

  onEnd(trailers: readonly string[], isReusable: boolean): void {
    if (this.#isOver) return;
    const { peers } = this.#parts;
    const connection = this.#connection;
    // The owner still expects the rest of a body that it has not read to its end.
    const mayCarryMore = isReusable && !this.#caller && (this.#large === null || this.#large.hasEnded);
    if (connection && this.#peer && mayCarryMore) peers.release(this.#peer, connection);
    else this.#drop();
    if (this.#isMoved) return this.#finish("moved");
    this.#attempt(() => {
      if (this.#events && trailers[0] === BROKEN_OFF_TRAILER) this.#answer.breakOff(null, this.#parts.clock);
      else this.#answer.end(trailers);
      if (this.#large && !this.#large.hasEnded) this.#large.stop();
      this.#finish("done");
    });
  }

  /** Node's HTTP code throws for headers that cannot be sent; the other node's are not trusted. */
  #attempt(write: () => void): void {
    try {
      write();
    } catch {
      this.#drop();
      this.#finish("lost");
    }
  }

  /** Closes the connection and ignores whatever still arrives on it. */
  #drop(): void {
    const connection = this.#connection;
    if (!connection) return;
    connection.user = null;
    connection.socket.destroy();
  }

  #newParser(): ResponseParser {
    const { request, upgrade } = this.#parts;
    return new ResponseParser(request.method ?? "GET", this, upgrade !== undefined, MAX_HEAD_BYTES);
  }

  #connect(peer: Peer, idle: Connection | null): void {
    this.#hasBegun = false;
    this.#hasAnswer = false;
    this.#parser = this.#newParser();
    this.#connection = idle ?? this.#parts.peers.open(peer, this, this.#caller !== null);
    if (idle) this.#send(idle);
  }

  #send({ socket }: Connection): void {
    this.#hasBegun = true;
    const { text } = this.#head;
    const body = this.#little;
    if (!body || body.length === 0) socket.write(`${text}\r\n`, "latin1");
    else if (body.length <= ONE_WRITE_BYTES) socket.write(`${text}\r\n${body.toString("latin1")}`, "latin1");
    else {
      socket.cork();
      socket.write(`${text}\r\n`, "latin1");
      socket.write(body);
      socket.uncork();
    }
  }

  #mayRepeat(): boolean {
    const isPlain = this.#little?.length === 0;
    return this.#isReused && !this.#hasAnswer && isPlain && REPEATABLE.has(this.#parts.request.method ?? "");
  }

  /** While the answer is stalled, the other node's `dropped` message ends it. */
  #watch(answer: Droppable, isStalled: boolean): void {
    const { dropped } = this.#parts.peers;
    if (!this.#peer || this.#requestId === null) return;
    if (isStalled) dropped.add(this.#peer.id, this.#requestId, answer);
    else dropped.remove(this.#peer.id, this.#requestId, answer);
  }

  #finish(result: ForwardResult): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#watch(this, false);
    this.#end(result);
  }
}

/** A body that is streamed from the caller to the other node, at that node's pace. */
class ForwardedBody {
  readonly #request: IncomingMessage;
  readonly #isChunked: boolean;
  #to: Socket | null = null;
  hasEnded = false;

  constructor(request: IncomingMessage, isChunked: boolean) {
    this.#request = request;
    this.#isChunked = isChunked;
  }

  /** Only once: the body cannot be read again. */
  start(socket: Socket): void {
    if (this.#to) return;
    this.#to = socket;
    this.#request.on("data", (bytes: Buffer) => {
      if (this.#to && !this.#write(this.#to, bytes)) this.#request.pause();
    });
    this.#request.once("end", () => this.#end());
  }

  /** The other node can take more. */
  resume(): void {
    if (this.#to) this.#request.resume();
  }

  /** Discards the rest. */
  stop(): void {
    this.#to = null;
    this.#request.resume();
  }

  #write(socket: Socket, bytes: Buffer): boolean {
    const onSent = (): void => releaseBytes(bytes);
    return this.#isChunked ? writeChunk(socket, bytes, onSent) : socket.write(bytes, onSent);
  }

  #end(): void {
    this.hasEnded = true;
    if (this.#isChunked) this.#to?.write(`0\r\n${fieldLines(this.#request.rawTrailers)}\r\n`, "latin1");
  }
}

/** Reads exactly that many bytes, so that the stream does not end and they can be put back; null if it is shorter. */
export async function readWhole(request: IncomingMessage, bytes: number): Promise<Buffer | null> {
  if (bytes === 0) return NOTHING;
  // A destroyed request emits no further events.
  if (request.destroyed) return null;
  const { promise, resolve } = Promise.withResolvers<Buffer | null>();
  const read = (): void => {
    const body = request.read(bytes) as Buffer | null;
    if (body) resolve(body.length === bytes ? body : null);
  };
  const leave = (): void => resolve(null);
  request.on("readable", read).once("close", leave);
  return await promise.finally(() => request.off("readable", read).off("close", leave));
}
