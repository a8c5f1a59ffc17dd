import type { IncomingMessage, ServerResponse } from "node:http";
import { ownMemoryBytes } from "../kit/own-memory.ts";
import { AppError } from "../model/errors.ts";

/** Up to here a body counts for nothing. */
export const LITTLE_BYTES = 64 * 1024;
export const NO_ROOM = {
  message: "The bodies of other calls take up all available memory; try again shortly.",
  headers: { "retry-after": "1" },
};
const MIB = 1024 * 1024;
const LEAST_BYTES = 256 * MIB;
/** Of the memory that the process may use. */
const SHARE = 1 / 4;

/** How much of this machine's memory the bodies of calls in progress may take. */
export function bodyRoomBytes(): number {
  return Math.max(LEAST_BYTES, Math.floor(ownMemoryBytes() * SHARE));
}

type Request = { readonly request: IncomingMessage; readonly response: ServerResponse };

/** What one body has taken. */
export type BodyReservation = {
  /** Raises the reservation to this many bytes in total; false if there is no room for them. */
  growTo(bytes: number): boolean;
};

/** Makes room for that many bytes; throws `overloaded`. */
export type MakeRoom = (bytes: number) => void;

/**
 * Room for the bodies of calls, from their arrival until the answer has left, and for stored payloads on their way out:
 * who asks for one need not read it. Each owner may use as much as it leaves for others, so some room is left however
 * many owners there are. A single body is always accepted.
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

  /** Room for the body of a request, given back when the answer has left or the connection has ended. */
  open(owner: string, { request, response }: Request): BodyReservation {
    const { socket } = request;
    let bytes = 0;
    const leave = (): void => {
      // An answer that waits for its turn on the connection is not told of that one's end.
      response.off("close", leave);
      socket.off("close", leave);
      this.#add(owner, -bytes);
      bytes = 0;
    };
    response.once("close", leave);
    socket.once("close", leave);
    return {
      growTo: (wanted) => {
        const more = wanted - bytes;
        const isAlone = this.#bytes === bytes;
        const left = this.#maxBytes - this.#bytes;
        if (!isAlone && (this.#owned.get(owner) ?? 0) + more > left) return false;
        bytes = wanted;
        this.#add(owner, more);
        return true;
      },
    };
  }

  /** Room for a stored payload that is sent whole: it is taken before the payload is read. */
  forAnswer(owner: string, exchange: Request): MakeRoom {
    return (bytes) => {
      if (bytes > LITTLE_BYTES && !this.open(owner, exchange).growTo(bytes))
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
