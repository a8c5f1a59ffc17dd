import type { Socket } from "node:net";
import type { Clock, Timer } from "../../kit/clock.ts";
import { MAX_LINE_BYTES } from "./seat-messages.ts";
import { BadFrame, readFrames } from "../protocol.ts";

/** Each side sends a heartbeat this often, and drops a connection that is silent for three of them. */
const BEAT_MS = 2_000;
const SILENCE_MS = 3 * BEAT_MS;
/** For the last message, to a side that may have stopped reading. */
const LAST_WORD_MS = 5_000;
/** Only the first message to an agent is large. */
const MAX_UNREAD_BYTES = 32 * 1024 * 1024;

export type LineEvents<Heard> = {
  onMessage(message: Heard): void;
  /** It broke the protocol; it ends next. */
  onFault(fault: string): void;
  onError(error: unknown): void;
  /** It has ended, or nothing came for too long. Once. */
  onEnded(): void;
};

export type Beat = { readonly beat: Record<string, never> };

/** A connection to an agent or supervisor: lines of JSON, and heartbeats. `read` throws `BadFrame` for an illegal message. */
export class SeatLine<Heard, Said> {
  readonly #socket: Socket;
  readonly #clock: Clock;
  readonly #events: LineEvents<Heard>;
  readonly #beats: Timer;
  readonly #silence: Timer;
  #isOver = false;

  constructor(socket: Socket, clock: Clock, read: (line: Buffer) => Heard, events: LineEvents<Heard>) {
    this.#socket = socket;
    this.#clock = clock;
    this.#events = events;
    this.#beats = clock.every(BEAT_MS, () => this.say({ beat: {} }));
    this.#silence = clock.after(SILENCE_MS, () => this.close());
    socket.on("close", () => this.close());
    socket.on("data", () => this.#silence.restart());
    readFrames(
      socket,
      MAX_LINE_BYTES,
      () => this.#isOver,
      (line) => events.onMessage(read(line)),
      (error) => {
        if (error instanceof BadFrame) events.onFault(error.message);
        else events.onError(error);
        this.close();
      },
    );
    socket.resume();
  }

  say(message: Said | Beat): void {
    if (this.#isOver) return;
    this.#socket.write(`${JSON.stringify(message)}\n`);
    if (this.#socket.writableLength > MAX_UNREAD_BYTES) this.close();
  }

  close(lastWord?: Said): void {
    if (this.#isOver) return;
    if (lastWord) this.say(lastWord);
    this.#isOver = true;
    this.#beats.cancel();
    this.#silence.cancel();
    if (lastWord) {
      const late = this.#clock.after(LAST_WORD_MS, () => this.#socket.destroy());
      this.#socket.once("close", () => late.cancel());
      this.#socket.end(() => this.#socket.destroy());
    } else this.#socket.destroy();
    this.#events.onEnded();
  }
}
