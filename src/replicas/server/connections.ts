import { connect } from "node:net";
import type { Clock } from "../../kit/clock.ts";
import { shared } from "../../kit/concurrency.ts";
import { Connection, type ConnectionUser } from "../../kit/http/connection.ts";
import type { ServerPlace } from "../../engines/engine.ts";

type Place = Extract<ServerPlace, { kind: "listening" }>;

/** Shorter than usual servers keep idle connections: a request on a closing one would be lost. */
const IDLE_MS = 1_000;
/** How long a check that the port belongs to the server is valid. */
const KNOWN_MS = 1_000;

/** Keep-alive connections to one server. */
export class Connections {
  readonly #clock: Clock;
  readonly #look: () => Promise<ServerPlace>;
  /** The last used one is reused first, so that the others can expire. */
  #idle: Connection[] = [];
  readonly #all = new Set<Connection>();
  #place: Place | null = null;
  #knownAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  /** `look` finds out where the server listens. */
  constructor(clock: Clock, look: () => Promise<ServerPlace>) {
    this.#clock = clock;
    this.#look = look;
  }

  /** The server was verified to listen there. */
  know(place: Place): void {
    this.#place = place;
    this.#knownAt = this.#clock.monotonic();
  }

  /** An open idle connection; null if there is none. */
  take(user: ConnectionUser): Connection | null {
    const since = this.#clock.monotonic() - IDLE_MS;
    for (let connection = this.#idle.pop(); connection; connection = this.#idle.pop()) {
      if (!connection.socket.destroyed && connection.idleSince >= since) {
        connection.user = user;
        return connection;
      }
      connection.socket.destroy();
    }
    return null;
  }

  /** Opens a connection; its user learns whether it can be used. */
  open(user: ConnectionUser, allowHalfOpen = false): Connection {
    const { host = "127.0.0.1", port = 0, path } = this.#place ?? {};
    const target = path === undefined ? { host, port } : { path };
    const connection = new Connection(connect({ ...target, allowHalfOpen }), user);
    this.#all.add(connection);
    const { socket } = connection;
    socket.once("close", () => this.#all.delete(connection));
    socket.once("connect", () => {
      if (this.#clock.monotonic() - this.#knownAt < KNOWN_MS) connection.user?.onOpen();
      else void this.#require(connection);
    });
    return connection;
  }

  /** Its exchange is over, and it can be reused. */
  release(connection: Connection): void {
    connection.user = null;
    if (this.#isClosed || connection.socket.destroyed) connection.socket.destroy();
    else {
      // The last piece of its response may have filled its reader.
      connection.socket.resume();
      connection.idleSince = this.#clock.monotonic();
      this.#idle.push(connection);
    }
  }

  sweep(): void {
    const since = this.#clock.monotonic() - IDLE_MS;
    const isOld = ({ idleSince }: Connection): boolean => idleSince < since;
    if (!this.#idle.some(isOld)) return;
    for (const connection of this.#idle.filter(isOld)) connection.socket.destroy();
    this.#idle = this.#idle.filter((connection) => !isOld(connection));
  }

  /** From now on, connections close after their request. */
  retire(): void {
    this.#isClosed = true;
    for (const { socket } of this.#idle) socket.destroy();
    this.#idle = [];
  }

  close(): void {
    this.retire();
    for (const { socket } of this.#all) socket.destroy();
  }

  /** Before the first byte is sent: another process could have taken the port. */
  async #require(connection: Connection): Promise<void> {
    if (await this.#isOwn()) connection.user?.onOpen();
    else connection.socket.destroy();
  }

  readonly #isOwn = shared(async () => {
    const place = await this.#look().catch(() => null);
    if (place?.kind !== "listening" || place.port !== this.#place?.port) return false;
    this.know(place);
    return true;
  });
}
