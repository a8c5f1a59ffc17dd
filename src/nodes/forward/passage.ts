import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../../kit/clock.ts";
import type { Connection, ConnectionUser } from "../../kit/http/connection.ts";
import { BadResponse, fieldLines } from "../../kit/http/fields.ts";
import { MAX_RESPONSE_HEAD_BYTES, ResponseParser } from "../../kit/http/response-parser.ts";
import type { ResponseEvents, ResponseHead } from "../../kit/http/response-parser.ts";
import { releaseBytes } from "../../kit/bytes.ts";
import { Tunnel, WaitingCaller } from "../../kit/websocket/tunnel.ts";
import type { HostedApp } from "../../model/app-host.ts";
import { AppError } from "../../model/errors.ts";
import type { Droppable, Peer, Peers } from "../peers.ts";
import { ONE_WRITE_BYTES, PassedAnswer, isEvents, lostEvent, valueOf } from "./answer.ts";
import type { AnswerParts } from "./answer.ts";
import { BROKEN_OFF_TRAILER, MOVED_HEADER, MOVED_STATUS, hopHead } from "./hop-head.ts";
import type { HopHead, Purpose } from "./hop-head.ts";
import type { AppKey, Elsewhere } from "./whereabouts.ts";

/**
 * What became of a request at another node:
 * - done: it was answered there, or its caller has gone, or was told in a stream of events that the node was lost;
 * - moved: that node does not have the app, and has begun nothing;
 * - unreached: nothing of it was sent;
 * - lost: the connection ended before the answer did, and the request may have been carried out.
 */
export type Passed = "done" | "moved" | "unreached" | "lost";

export type PassageParts = AnswerParts & {
  readonly purpose: Exclude<Purpose, "node">;
  /** The address that the request came from. */
  readonly remote: string;
  /** The app whose host the request came to; null on the shared origin. */
  readonly hostOf: HostedApp | null;
  readonly peers: Peers;
  readonly clock: Clock;
  /** All of the request's body, if it has been read. */
  readonly body?: Buffer;
  /** For a request that asks for a WebSocket. */
  readonly upgrade?: {
    /** What came together with the handshake. */
    readonly first: Buffer;
    /** Takes the connection away from HTTP. */
    readonly takeOver: () => Socket;
    readonly onTunnel: (tunnel: Tunnel) => void;
    readonly onOver: (tunnel: Tunnel) => void;
  };
};

const REQUEST_ID = "x-request-id";
/** A body up to here is read first, and sent with the head, while there is room for it. */
const LITTLE_BYTES = 64 * 1024;
/** Lost with a kept connection, they are sent again: nothing has changed by them. */
const REPEATABLE = new Set(["GET", "HEAD"]);
/** An app's head, and what its node adds to it. */
const MAX_HEAD_BYTES = MAX_RESPONSE_HEAD_BYTES + 8 * 1024;
/** The node that has the app looks after these. */
const NO_LIMITS = { maxAgeMs: Infinity, idleMs: Infinity, stallMs: Infinity };
/**
 * To the node that should have the app, and to the one that has it then. While nodes take over from a dead one, that may
 * be yet another by the time it is asked. Nothing of the request has begun before.
 */
const MAX_TRIES = 5;
const UNREACHED = {
  message: "The node that has this app cannot be reached; try again shortly.",
  headers: { "retry-after": "1" },
};
const HEX = 16;
const NOTHING = Buffer.alloc(0);

/**
 * Sends a request to the node that has its app, and if it has it no more to the one that has it then. Says whether it was
 * answered, or has to be answered here. Throws `node_lost`, and `app_not_ready` when nobody was found.
 */
export async function passOn(
  elsewhere: Elsewhere,
  app: AppKey,
  passage: Passage,
  to: Peer,
): Promise<"done" | "here"> {
  let peer = to;
  try {
    for (let tries = 1; ; tries += 1) {
      const passed = await passage.to(peer);
      if (passed === "done") return passed;
      if (passed === "lost") throw new AppError("node_lost");
      const place = tries < MAX_TRIES ? await elsewhere.retry(app, peer, passed, passage.gone) : null;
      if (passage.gone.aborted) return "done";
      if (!place) throw new AppError("app_not_ready", UNREACHED);
      if (place.kind === "here") {
        passage.giveBack();
        return "here";
      }
      peer = place.peer;
    }
  } finally {
    passage.release();
  }
}

/**
 * A request on its way through this node to the one that has its app, and the answer on its way back: as bytes, no
 * faster than either side reads. It may be sent to one node after the other, until one has begun with it.
 */
export class Passage implements ConnectionUser, ResponseEvents {
  readonly #parts: PassageParts;
  readonly #head: HopHead;
  /** All of it if it is little; of a larger one nothing is read before a node asks for it. */
  #little: Buffer | null = null;
  readonly #large: PassedBody | null;
  /** What of the body may be held here. */
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
  /** The answer's `X-Request-Id`. */
  #requestId: string | null = null;
  /** The head of an answer that is a stream of events of the service's own. */
  #events: ResponseHead | null = null;
  readonly #answer: PassedAnswer;
  #isGone = false;
  #gone: AbortController | null = null;
  #end: (passed: Passed) => void = () => {};

  constructor(parts: PassageParts) {
    const { request, upgrade, peers, body = null } = parts;
    this.#parts = parts;
    this.#little = body;
    const isUpgrade = upgrade !== undefined;
    const readBytes = body?.length ?? null;
    const littleBytes = peers.held.hasRoom ? LITTLE_BYTES : 0;
    this.#head = hopHead(request, { ...parts, isUpgrade, readBytes, littleBytes });
    const { bodyBytes, isAwaited } = this.#head;
    const isLarge = bodyBytes === null || bodyBytes > littleBytes || (isAwaited && bodyBytes > 0);
    this.#large = isLarge && !body ? new PassedBody(request, bodyBytes === null) : null;
    this.#heldBytes = isLarge ? 0 : bodyBytes;
    peers.held.add(this.#heldBytes);
    this.#caller = upgrade ? new WaitingCaller(request.socket, upgrade.first) : null;
    this.#parser = this.#newParser();
    this.#answer = new PassedAnswer(parts, this);
  }

  /** Aborts when the caller goes. Made when somebody asks: of most calls nobody does. */
  get gone(): AbortSignal {
    this.#gone ??= new AbortController();
    if (this.#isGone) this.#gone.abort();
    return this.#gone.signal;
  }

  /** It is not sent any more. */
  release(): void {
    const { peers, request } = this.#parts;
    peers.held.add(-this.#heldBytes);
    this.#heldBytes = 0;
    // What `readWhole` has read ends only now: until then it could be given back.
    if (this.#hasRead) request.resume();
  }

  /** This node answers it: what was read of its body can be read again, by the usual way. */
  giveBack(): void {
    if (this.#hasRead) this.#parts.request.unshift(this.#little);
    this.#little = null;
  }

  /** Nothing is read of a request without a body: its stream may be the socket of a WebSocket by now. */
  get #hasRead(): boolean {
    return !this.#parts.body && this.#little !== null && this.#little.length > 0;
  }

  /** Leaves a request for a WebSocket to others; gives what its caller has sent. */
  leave(): Buffer | null {
    return this.#caller?.leave() ?? null;
  }

  /** Sends it to a node. Once more only after `moved` or `unreached`. */
  async to(peer: Peer): Promise<Passed> {
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

  /** The caller has gone, or has its answer: the other node is not to go on. */
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

  /** The caller does not read: neither does this node. */
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

  /** The other node has closed the connection, which nobody sees here while the caller does not read. */
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
    } else this.#finish(this.#tellLoss() ? "done" : "lost");
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
    this.#requestId = valueOf(head.headers, REQUEST_ID) ?? null;
    const droppable = { abandon: () => tunnel.destroy() };
    this.#watch(droppable, true);
    client.once("close", () => this.#watch(droppable, false));
    tunnel.begin(early, rest);
  }

  onHead(head: ResponseHead): void {
    this.#hasAnswer = true;
    this.#requestId = valueOf(head.headers, REQUEST_ID) ?? null;
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
    // A body that was not asked for as a whole is still expected there.
    const mayCarryMore = isReusable && !this.#caller && (this.#large === null || this.#large.hasEnded);
    if (connection && this.#peer && mayCarryMore) peers.release(this.#peer, connection);
    else this.#drop();
    if (this.#isMoved) {
      this.#finish("moved");
      return;
    }
    this.#attempt(() => {
      if (this.#events && trailers[0] === BROKEN_OFF_TRAILER) this.#answer.breakOff(null, this.#parts.clock);
      else this.#answer.end(trailers);
      if (this.#large && !this.#large.hasEnded) this.#large.stop();
      this.#finish("done");
    });
  }

  /** Writes to the caller. What another node says is not trusted: Node throws for what cannot be sent. */
  #attempt(write: () => void): void {
    try {
      write();
    } catch {
      this.#drop();
      this.#finish("lost");
    }
  }

  /** Says in a stream of events that the rest of it is lost; false where that cannot be told. */
  #tellLoss(): boolean {
    // After half a message the caller would take the two for one.
    if (!this.#events || !this.#parser.isBetweenChunks) return false;
    this.#answer.breakOff(lostEvent(this.#events.headers), this.#parts.clock);
    return true;
  }

  /** Ends the connection; what it still tells is not about this request any more. */
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

  /** Has the other node's word end what is passed on, or no longer. */
  #watch(answer: Droppable, isStalled: boolean): void {
    const { dropped } = this.#parts.peers;
    if (!this.#peer || this.#requestId === null) return;
    if (isStalled) dropped.add(this.#peer.id, this.#requestId, answer);
    else dropped.remove(this.#peer.id, this.#requestId, answer);
  }

  #finish(passed: Passed): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#watch(this, false);
    this.#end(passed);
  }
}

/** A body that goes to another node as it comes from its caller, as fast as that node takes it. */
class PassedBody {
  readonly #request: IncomingMessage;
  readonly #isChunked: boolean;
  #to: Socket | null = null;
  hasEnded = false;

  constructor(request: IncomingMessage, isChunked: boolean) {
    this.#request = request;
    this.#isChunked = isChunked;
  }

  /** Once: what has been read cannot be read again. */
  start(socket: Socket): void {
    if (this.#to) return;
    this.#to = socket;
    this.#request.on("data", (bytes: Buffer) => {
      if (this.#to && !this.#write(bytes)) this.#request.pause();
    });
    this.#request.once("end", () => this.#end());
  }

  /** The other node has taken what was written. */
  resume(): void {
    if (this.#to) this.#request.resume();
  }

  /** Nobody wants the rest: it is read away. */
  stop(): void {
    this.#to = null;
    this.#request.resume();
  }

  #write(bytes: Buffer): boolean {
    const socket = this.#to;
    if (!socket) return true;
    const onSent = (): void => releaseBytes(bytes);
    if (!this.#isChunked) return socket.write(bytes, onSent);
    socket.cork();
    socket.write(`${bytes.length.toString(HEX)}\r\n`, "latin1");
    socket.write(bytes, onSent);
    const hasRoom = socket.write("\r\n", "latin1");
    socket.uncork();
    return hasRoom;
  }

  #end(): void {
    this.hasEnded = true;
    if (this.#isChunked) this.#to?.write(`0\r\n${fieldLines(this.#request.rawTrailers)}\r\n`, "latin1");
  }
}

/**
 * Reads a body of that length; null if it ends before. Exactly so much is taken, so that the stream does not end: the
 * bytes can be put back.
 */
export async function readWhole(request: IncomingMessage, bytes: number): Promise<Buffer | null> {
  if (bytes === 0) return NOTHING;
  // A caller who has gone already is not heard of again.
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
