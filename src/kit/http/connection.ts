import type { Socket } from "node:net";

/** Who uses a connection now. */
export type ConnectionUser = {
  onOpen(): void;
  onData(data: Buffer): void;
  onDrain(): void;
  /** It has ended; nothing more comes from it. */
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

  /** Hands it on: it carries something else than requests from now on. */
  detach(): Socket {
    this.socket.off("data", this.#onData);
    this.user = null;
    return this.socket;
  }

  readonly #onData = (data: Buffer): void => {
    // Nobody has asked for anything: not to be trusted with a request.
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
