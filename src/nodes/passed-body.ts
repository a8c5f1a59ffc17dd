import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { fieldLines } from "../kit/http/fields.ts";
import { KeptBody } from "../kit/kept-body.ts";
import { releaseBytes } from "../kit/release-bytes.ts";

const HEX = 16;
const NOTHING = Buffer.alloc(0);

/** Reads a body of that length; null if it ends before. */
export async function readWhole(request: IncomingMessage, bytes: number): Promise<Buffer | null> {
  if (bytes === 0) return NOTHING;
  // Of a caller who has gone already nothing more is heard, not even that.
  if (request.destroyed) return null;
  const kept = new KeptBody(bytes);
  return await new Promise((resolve) => {
    request.on("data", (piece: Buffer) => kept.add(piece));
    request.once("end", () => resolve(kept.whole()));
    request.once("close", () => resolve(null));
  });
}

/** A body that goes to another node as it comes from its caller, as fast as that node takes it. */
export class PassedBody {
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
