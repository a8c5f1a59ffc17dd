import { connect, type ConnectionOptions, createSecureContext, type SecureContext } from "node:tls";
import type { Clock } from "../kit/clock.ts";
import { Connection, type ConnectionUser } from "../kit/http/connection.ts";
import type { ServiceNode } from "../model/node.ts";
import { hostOf, type Identity } from "./authority.ts";

export type Peer = Pick<ServiceNode, "id" | "url">;

/** For a connection and its handshake. */
const CONNECT_MS = 2_000;
const MAX_IDLE = 256;
/** Detects dead machines on idle connections; ten more probes follow, a second apart. */
const KEEP_ALIVE_MS = 5_000;

/** How many dropped answers are remembered, for those that are still being read. */
const MAX_REMEMBERED = 10_000;
/** Bytes of callers' bodies. */
const MAX_HELD_BYTES = 64 * 1024 * 1024;

type Known = {
  readonly peer: Peer;
  /** The most recently used one is last. */
  readonly idle: Connection[];
  /** For TLS session resumption. */
  session: Buffer | undefined;
};

/** Keep-alive connections to other nodes. A peer is identified by its certificate. */
export class Peers {
  readonly held: HeldBytes;
  readonly dropped = new Dropped();
  /** Shared: parsing certificates and key costs more than a resumed handshake. */
  readonly #context: SecureContext;
  readonly #clock: Clock;
  readonly #known = new Map<string, Known>();
  readonly #all = new Map<Connection, Known>();

  constructor({ certificate, key, authority }: Identity, clock: Clock, held = new HeldBytes()) {
    this.held = held;
    this.#context = createSecureContext({ cert: certificate, key, ca: authority, minVersion: "TLSv1.3" });
    this.#clock = clock;
  }

  /** An idle connection; null if there is none. */
  take(peer: Peer, user: ConnectionUser): Connection | null {
    const idle = this.#known.get(peer.id)?.idle;
    for (let connection = idle?.pop(); connection; connection = idle?.pop()) {
      if (connection.socket.destroyed || !connection.socket.readable) continue;
      connection.user = user;
      return connection;
    }
    return null;
  }

  /** A new connection; its user is notified when it opens or fails. */
  open(peer: Peer, user: ConnectionUser, allowHalfOpen = false): Connection {
    const known = this.#known.get(peer.id) ?? { peer, idle: [], session: undefined };
    this.#known.set(peer.id, known);
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
      // A resumed session does not check the peer's certificate again.
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

  /** Returns a connection after its exchange, for reuse. */
  release(peer: Peer, connection: Connection): void {
    const known = this.#known.get(peer.id);
    connection.user = null;
    // The peer may have left meanwhile.
    const isOurs = known !== undefined && this.#all.get(connection) === known;
    if (!isOurs || known.idle.length >= MAX_IDLE) connection.socket.destroy();
    else {
      // Its reader may still be paused.
      connection.socket.resume();
      known.idle.push(connection);
    }
  }

  /** Peers with requests in progress. */
  busy(): Peer[] {
    const idle = new Set([...this.#known.values()].flatMap((known) => known.idle));
    const found = new Map<string, Peer>();
    for (const [connection, { peer }] of this.#all) if (!idle.has(connection)) found.set(peer.id, peer);
    return [...found.values()];
  }

  /** The node has left: requests in progress continue, nothing else is kept. */
  forget(nodeId: string): void {
    for (const { socket } of this.#known.get(nodeId)?.idle ?? []) socket.destroy();
    this.#known.delete(nodeId);
  }

  /** The node is dead: closes all its connections. */
  abandon(nodeId: string): void {
    for (const [{ socket }, known] of this.#all) if (known.peer.id === nodeId) socket.destroy();
    this.#known.delete(nodeId);
  }

  close(): void {
    for (const { socket } of this.#all.keys()) socket.destroy();
    this.#known.clear();
  }
}

/** Memory for callers' bodies. Without room, a body is read only when the owner asks for it. */
export class HeldBytes {
  bytes = 0;
  readonly #maxBytes: number;

  constructor(maxBytes = MAX_HELD_BYTES) {
    this.#maxBytes = maxBytes;
  }

  get hasRoom(): boolean {
    return this.bytes < this.#maxBytes;
  }
}

/** A forwarded answer that can be ended. */
export type Droppable = { abandon(): void };

/** Answers whose callers do not read. A closed connection is not noticed then, so the owner sends a message. */
class Dropped {
  readonly #stalled = new Map<string, Set<Droppable>>();
  readonly #dropped = new Set<string>();

  /** Reading of that answer is paused. */
  add(nodeId: string, requestId: string, answer: Droppable): void {
    const key = keyOf(nodeId, requestId);
    if (this.#dropped.has(key)) return answer.abandon();
    const stalled = this.#stalled.get(key) ?? new Set();
    this.#stalled.set(key, stalled.add(answer));
  }

  remove(nodeId: string, requestId: string, answer: Droppable): void {
    const key = keyOf(nodeId, requestId);
    const stalled = this.#stalled.get(key);
    stalled?.delete(answer);
    if (stalled?.size === 0) this.#stalled.delete(key);
  }

  /** The owner has closed that answer. */
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
