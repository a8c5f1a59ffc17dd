import type { Duplex } from "node:stream";
import type { RememberedToken } from "../identity/tokens.ts";
import type { Exchange } from "./exchange.ts";

/** What is remembered of a caller's connection from one request to the next. */
export class Connection {
  /** The latest exchange on it. */
  latest: Exchange | null = null;
  /** A request on it could not be read: what comes behind that may be anybody's, and nothing of it is done. */
  isOver = false;
  /**
   * The authorization it showed last, and whose it is. Callers repeat it with every call, and comparing it
   * costs a tenth of finding a token of 600 characters in a map.
   */
  shown: { readonly header: string; readonly token: RememberedToken } | null = null;
}

/** The connections that are open. */
export class Connections {
  readonly #known = new WeakMap<Duplex, Connection>();

  of(socket: Duplex): Connection {
    let connection = this.#known.get(socket);
    if (!connection) {
      connection = new Connection();
      this.#known.set(socket, connection);
    }
    return connection;
  }
}
