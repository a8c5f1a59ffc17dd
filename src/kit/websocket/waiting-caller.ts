import type { Socket } from "node:net";
import { GrowingBytes } from "../growing-bytes.ts";

/** What a caller may send before its handshake is answered; what is more waits outside. */
const MAX_BYTES = 64 * 1024;

/** A caller whose handshake is not answered yet: what it sends already is kept, and if it leaves its connection ends. */
export class WaitingCaller {
  readonly #socket: Socket;
  readonly #early = new GrowingBytes();
  readonly #onData = (data: Buffer): void => {
    this.#early.add(data, 0, data.length);
    if (this.#early.length >= MAX_BYTES) this.#socket.pause();
  };
  readonly #onEnd = (): void => void this.#socket.destroy();

  /** `first`: what came together with the handshake. */
  constructor(socket: Socket, first: Buffer) {
    this.#socket = socket;
    this.#early.add(first, 0, first.length);
    // HTTP has let go of it: nobody else reads that it has ended.
    socket.on("data", this.#onData).once("end", this.#onEnd);
  }

  /** Leaves the connection to others; gives what has come. */
  leave(): Buffer {
    this.#socket.off("data", this.#onData).off("end", this.#onEnd);
    return this.#early.take();
  }
}
