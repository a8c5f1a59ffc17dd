import { connect, createSecureContext } from "node:tls";
import type { ConnectionOptions, SecureContext } from "node:tls";
import type { Clock } from "../kit/clock.ts";
import { Connection } from "../kit/http/connection.ts";
import type { ConnectionUser } from "../kit/http/connection.ts";
import type { ServiceNode } from "../model/node.ts";
import type { Identity } from "./authority.ts";
import { hostOf } from "./authority.ts";

/** Another node, as far as one has to know it to reach it. */
export type Peer = Pick<ServiceNode, "id" | "url">;

/** For a connection and its handshake. */
const CONNECT_MS = 2_000;
/** Of those that have nothing to do, to one peer. */
const MAX_IDLE = 256;
/** Finds out that a machine is gone while nothing is under way; ten more questions follow, a second apart. */
const KEEP_ALIVE_MS = 5_000;

/** So many that other nodes have dropped are remembered, for answers that are still being read from the connection. */
const MAX_REMEMBERED = 10_000;
/** Of callers' bodies. */
const MAX_HELD_BYTES = 64 * 1024 * 1024;

/** What is kept of one peer. */
type Known = {
  readonly peer: Peer;
  /** The one used last comes first. */
  readonly idle: Connection[];
  /** Makes the next handshake a short one. */
  session: Buffer | undefined;
};

/** Connections to other nodes, kept from one request to the next. A peer is who its certificate says. */
export class Peers {
  readonly held: HeldBytes;
  readonly dropped = new Dropped();
  /** Of all connections: to read certificates and key anew costs more than a resumed handshake. */
  readonly #context: SecureContext;
  readonly #clock: Clock;
  readonly #known = new Map<string, Known>();
  readonly #all = new Map<Connection, Known>();

  constructor({ certificate, key, authority }: Identity, clock: Clock, held = new HeldBytes()) {
    this.held = held;
    this.#context = createSecureContext({ cert: certificate, key, ca: authority, minVersion: "TLSv1.3" });
    this.#clock = clock;
  }

  /** A connection that is open and has nothing to do; null if there is none. */
  take(peer: Peer, user: ConnectionUser): Connection | null {
    const idle = this.#known.get(peer.id)?.idle;
    for (let connection = idle?.pop(); connection; connection = idle?.pop()) {
      if (connection.socket.destroyed || !connection.socket.readable) continue;
      connection.user = user;
      return connection;
    }
    return null;
  }

  /** A new one; its user learns when it can be used, or that it cannot. `allowHalfOpen`: its ends are not ended for us. */
  open(peer: Peer, user: ConnectionUser, allowHalfOpen = false): Connection {
    const known = this.#of(peer);
    const { hostname, port } = new URL(peer.url);
    const options: ConnectionOptions & { allowHalfOpen: boolean } = {
      host: hostname.replace(/^\[(.*)\]$/, "$1"),
      port: Number(port),
      secureContext: this.#context,
      servername: hostOf(peer.id),
      allowHalfOpen,
      ...(known.session && { session: known.session }),
    };
    const socket = connect(options);
    const connection = new Connection(socket, user);
    this.#all.set(connection, known);
    const late = this.#clock.after(CONNECT_MS, () => socket.destroy());
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    socket.on("session", (session: Buffer) => {
      // With one of these nobody looks again at who the other side is.
      if (socket.authorized) known.session = session;
    });
    socket.once("secureConnect", () => {
      late.cancel();
      connection.user?.onOpen();
    });
    socket.once("close", () => {
      late.cancel();
      this.#all.delete(connection);
    });
    return connection;
  }

  /** Its exchange is over, and it may carry another. */
  release(peer: Peer, connection: Connection): void {
    const known = this.#known.get(peer.id);
    connection.user = null;
    // The peer may have left meanwhile.
    const isOurs = known !== undefined && this.#all.get(connection) === known;
    if (!isOurs || known.idle.length >= MAX_IDLE) {
      connection.socket.destroy();
      return;
    }
    // The last piece of its response may have filled its reader.
    connection.socket.resume();
    known.idle.push(connection);
  }

  /** Those that something is under way with. */
  busy(): Peer[] {
    const idle = new Set([...this.#known.values()].flatMap((known) => known.idle));
    const found = new Map<string, Peer>();
    for (const [connection, { peer }] of this.#all) if (!idle.has(connection)) found.set(peer.id, peer);
    return [...found.values()];
  }

  /** The node has left: what is under way goes on, and nothing else is kept. */
  forget(nodeId: string): void {
    for (const { socket } of this.#known.get(nodeId)?.idle ?? []) socket.destroy();
    this.#known.delete(nodeId);
  }

  /** The node is gone: nobody waits for it any more. */
  abandon(nodeId: string): void {
    for (const [{ socket }, known] of this.#all) if (known.peer.id === nodeId) socket.destroy();
    this.#known.delete(nodeId);
  }

  /** Ends all of them. */
  close(): void {
    for (const { socket } of this.#all.keys()) socket.destroy();
    this.#known.clear();
  }

  #of(peer: Peer): Known {
    const known = this.#known.get(peer.id);
    if (known) return known;
    const fresh: Known = { peer, idle: [], session: undefined };
    this.#known.set(peer.id, fresh);
    return fresh;
  }
}

/**
 * How much of callers' bodies is held here on its way to other nodes. Callers have shown no token yet, and may be many:
 * when there is no room left, a body is read only when its node asks for it.
 */
export class HeldBytes {
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes = MAX_HELD_BYTES) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get hasRoom(): boolean {
    return this.#bytes < this.#maxBytes;
  }

  /** Holds so many more, or less. */
  add(bytes: number): void {
    this.#bytes += bytes;
  }
}

/** What this node passes on, and can end on its own. */
export type Droppable = { abandon(): void };

/**
 * Answers of other nodes whose callers do not read. While nothing is taken from the connection to that node, nobody sees
 * that it was closed there: because the caller may read no more, or has not read for too long. So the other node says it.
 */
class Dropped {
  readonly #stalled = new Map<string, Set<Droppable>>();
  readonly #dropped = new Set<string>();

  /** Nothing is taken of that answer for now. `requestId`: its `X-Request-Id`. */
  add(nodeId: string, requestId: string, answer: Droppable): void {
    const key = keyOf(nodeId, requestId);
    if (this.#dropped.has(key)) return answer.abandon();
    const stalled = this.#stalled.get(key);
    if (stalled) stalled.add(answer);
    else this.#stalled.set(key, new Set([answer]));
  }

  remove(nodeId: string, requestId: string, answer: Droppable): void {
    const key = keyOf(nodeId, requestId);
    const stalled = this.#stalled.get(key);
    stalled?.delete(answer);
    if (stalled?.size === 0) this.#stalled.delete(key);
  }

  /** The other node has closed that answer's connection. */
  drop(nodeId: string, requestId: string): void {
    const key = keyOf(nodeId, requestId);
    const [oldest] = this.#dropped;
    if (oldest !== undefined && this.#dropped.size >= MAX_REMEMBERED) this.#dropped.delete(oldest);
    this.#dropped.add(key);
    const stalled = this.#stalled.get(key) ?? [];
    this.#stalled.delete(key);
    for (const answer of stalled) answer.abandon();
  }
}

function keyOf(nodeId: string, requestId: string): string {
  return `${nodeId} ${requestId}`;
}
