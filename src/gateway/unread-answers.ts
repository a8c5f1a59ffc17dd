import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock, Timer } from "../kit/clock.ts";

/** Checks in the time that an answer may stay unread. */
const LOOKS = 4;

type Unread = {
  readonly socket: Socket;
  readonly response: ServerResponse;
  /** What the kernel had taken of the connection's bytes when that last changed, and when that was. */
  sentBytes: number;
  changedAt: number;
};

/**
 * Answers that their callers have not read yet, complete or still being made. Closes a connection that takes no bytes for
 * too long, so that the answer does not stay in memory. The time of each answer begins with its turn. One timer for all.
 */
export class UnreadAnswers {
  readonly #stallMs: number;
  readonly #clock: Clock;
  readonly #unread = new Set<Unread>();
  #timer: Timer | null = null;
  #isLooking = false;

  constructor(stallMs: number, clock: Clock) {
    this.#stallMs = stallMs;
    this.#clock = clock;
  }

  /** An answer has begun, or was written and the kernel has not taken it as a whole, or its turn has not come. */
  add(socket: Socket, response: ServerResponse): void {
    const changedAt = this.#clock.monotonic();
    this.#unread.add({ socket, response, sentBytes: sentBytes(socket), changedAt });
    this.#lookLater();
  }

  #lookLater(): void {
    if (this.#isLooking || this.#unread.size === 0) return;
    this.#isLooking = true;
    if (this.#timer) this.#timer.restart();
    else this.#timer = this.#clock.after(this.#stallMs / LOOKS, () => this.#look());
  }

  #look(): void {
    this.#isLooking = false;
    const now = this.#clock.monotonic();
    for (const unread of this.#unread) {
      if (unread.response.writableFinished || unread.socket.destroyed) {
        this.#unread.delete(unread);
        continue;
      }
      const sent = sentBytes(unread.socket);
      // Without a socket, an earlier answer on the connection is still being sent; or there is nothing to send yet.
      const { socket, writableLength } = unread.response;
      if (socket === null || writableLength === 0 || sent !== unread.sentBytes) {
        unread.sentBytes = sent;
        unread.changedAt = now;
      }
      if (now - unread.changedAt >= this.#stallMs) unread.socket.destroy();
    }
    this.#lookLater();
  }
}

/**
 * How many of a socket's bytes the kernel has taken. Node reports a write only when all of it is gone, and a slow caller
 * may take minutes for one of megabytes; Node's own socket timeout compares the same two numbers.
 */
export function sentBytes(socket: Socket): number {
  const { _handle: handle } = socket as { _handle?: { bytesWritten: number; writeQueueSize: number } | null };
  return handle ? handle.bytesWritten - handle.writeQueueSize : socket.bytesWritten;
}
