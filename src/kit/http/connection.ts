import type { Socket } from "node:net";

/** The current user of a connection. */
export type ConnectionUser = {
  onOpen(): void;
  onData(data: Buffer): void;
  onDrain(): void;
  /** It has ended. */
  onLost(): void;
};

/** A connection to a server, one request at a time. */
export class Connection {
  readonly socket: Socket;
  user: ConnectionUser | null;
  idleSince = 0;

  constructor(socket: Socket, user: ConnectionUser) {
    this.socket = socket;
    this.user = user;
    socket.setNoDelay(true);
    socket.on("data", this.#onData);
    socket.on("drain", () => this.user?.onDrain());
    socket.on("error", () => {}); // `close` follows.
    socket.on("close", () => {
      const { user: last } = this;
      this.user = null;
      last?.onLost();
    });
  }

  /** Gives the socket away: it no longer carries requests. */
  detach(): Socket {
    this.socket.off("data", this.#onData);
    this.user = null;
    return this.socket;
  }

  readonly #onData = (data: Buffer): void => {
    // No request is open: the server cannot be trusted with another one.
    if (this.user) this.user.onData(data);
    else this.socket.destroy();
  };
}

/** Writes a piece of a chunked body; false if the socket is full. */
export function writeChunk(socket: Socket, bytes: Buffer, onSent?: () => void): boolean {
  socket.cork();
  socket.write(`${bytes.length.toString(16)}\r\n`, "latin1");
  socket.write(bytes, onSent);
  const hasRoom = socket.write("\r\n", "latin1");
  socket.uncork();
  return hasRoom;
}
