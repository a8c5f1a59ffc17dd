import type { IncomingMessage, ServerResponse } from "node:http";
import { ownMemoryBytes } from "../kit/memory.ts";
import { AppError } from "../model/errors.ts";
import { KeptBody } from "../kit/bytes.ts";
import type { RequestHead } from "./request-head.ts";

/** Bodies up to this size are not counted. */
const LITTLE_BYTES = 64 * 1024;
const NO_ROOM = {
  message: "The bodies of other calls take up all available memory; try again shortly.",
  headers: { "retry-after": "1" },
};
const MIB = 1024 * 1024;
const LEAST_BYTES = 256 * MIB;
/** Share of the process's memory limit. */
const SHARE = 1 / 4;

/** How much memory the bodies of calls in progress may take. */
export function bodyRoomBytes(): number {
  return Math.max(LEAST_BYTES, Math.floor(ownMemoryBytes() * SHARE));
}

type Request = { readonly request: IncomingMessage; readonly response: ServerResponse };

/** Raises the memory reserved for a body to this many bytes in total; false if there is no room for them. */
export type GrowTo = (bytes: number) => boolean;

/** Reserves that many bytes; throws `overloaded`. */
export type MakeRoom = (bytes: number) => void;

/**
 * Memory for the bodies of calls until their answers were sent, and for stored payloads being sent, whose callers may
 * read slowly. Each owner may use as much as it leaves to others, so there is always some room left. A single body is
 * always accepted.
 */
export class BodyRoom {
  readonly #maxBytes: number;
  readonly #owned = new Map<string, number>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Memory for the body of a request, released when the answer was sent or the connection has ended. */
  open(owner: string, { request, response }: Request): GrowTo {
    const { socket } = request;
    let bytes = 0;
    const leave = (): void => {
      // An answer that waits behind others gets no `close` of its own.
      response.off("close", leave);
      socket.off("close", leave);
      this.#add(owner, -bytes);
      bytes = 0;
    };
    response.once("close", leave);
    socket.once("close", leave);
    return (wanted) => {
      const more = wanted - bytes;
      const isAlone = this.#bytes === bytes;
      const left = this.#maxBytes - this.#bytes;
      if (!isAlone && (this.#owned.get(owner) ?? 0) + more > left) return false;
      bytes = wanted;
      this.#add(owner, more);
      return true;
    };
  }

  /** Memory for a stored payload, reserved before it is read. */
  forAnswer(owner: string, exchange: Request): MakeRoom {
    return (bytes) => {
      if (bytes > LITTLE_BYTES && !this.open(owner, exchange)(bytes))
        throw new AppError("overloaded", NO_ROOM);
    };
  }

  #add(owner: string, bytes: number): void {
    this.#bytes += bytes;
    const owned = (this.#owned.get(owner) ?? 0) + bytes;
    if (owned > 0) this.#owned.set(owner, owned);
    else this.#owned.delete(owner);
  }
}

const JSON_TYPE = /^application\/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?;?$/i;
const NOTHING = Buffer.alloc(0);

/** Throws unless the body is declared as plain JSON of an acceptable length. */
export function checkBodyHead(head: RequestHead, maxBytes: number): void {
  if (!hasBody(head)) return;
  const { contentType, contentEncoding, contentLength } = head;
  if (contentType !== "application/json" && (contentType === null || !JSON_TYPE.test(contentType)))
    throw new AppError("unsupported_media_type");
  if (contentEncoding !== null && contentEncoding !== "identity")
    throw new AppError("unsupported_media_type");
  if (contentLength !== null && Number(contentLength) > maxBytes) throw tooLarge(maxBytes);
}

export function hasBody({ contentLength, isChunked }: RequestHead): boolean {
  return isChunked || (contentLength !== null && contentLength !== "0");
}

/** Whether reading the rest of a refused body is cheaper than a new connection. */
export function isSoonOver(head: RequestHead): boolean {
  if (!hasBody(head)) return true;
  return !head.isChunked && Number(head.contentLength) <= LITTLE_BYTES;
}

/** Reads the body; `done` is called once. Large bodies reserve memory in `room`: all together have to fit. */
export function readBody(
  request: IncomingMessage,
  maxBytes: number,
  room: () => GrowTo,
  done: (error: AppError | null, body: Buffer) => void,
): void {
  const kept = new KeptBody(maxBytes);
  let growTo: GrowTo | null = null;
  const refuse = (error: AppError): void => {
    request.removeAllListeners("data").removeAllListeners("end");
    done(error, NOTHING);
  };
  request.on("data", (piece: Buffer) => {
    const bytes = kept.bytes + piece.length;
    if (bytes > maxBytes) refuse(tooLarge(maxBytes));
    else if (bytes > LITTLE_BYTES && !(growTo ??= room())(bytes)) refuse(new AppError("overloaded", NO_ROOM));
    else kept.add(piece);
  });
  request.on("end", () => done(null, kept.whole() ?? NOTHING));
}

export function tooLarge(maxBytes: number): AppError {
  return new AppError("body_too_large", {
    message: `The body is larger than max_body, which is ${maxBytes} bytes.`,
  });
}
