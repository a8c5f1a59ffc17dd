import type { ServerResponse } from "node:http";
import type { Clock, Timer } from "../kit/clock.ts";
import type { RunTiming } from "../runs/live-run.ts";
import { BROKEN_OFF_TRAILER } from "../nodes/forward/hop-head.ts";
import { STREAM_TYPE } from "../runs/response.ts";
import type { Exchange } from "./exchange.ts";
import { GzipMember, gzipBlocks } from "../kit/gzip-member.ts";
import { sentBytes } from "./unread-answers.ts";

export type StreamOptions = {
  readonly isGzip: boolean;
  readonly stallSeconds: number;
  readonly clock: Clock;
};

/** A comment is sent after this much silence, so that proxies keep the connection. */
export const HEARTBEAT_MS = 15_000;
/** Delay between a final error and the end of the connection, so that it is read. */
const LAST_WORD_MS = 50;
/** How long a caller that is cut off may read what was sent. */
const CUT_OFF_MS = 1_000;

/** Text for one or many callers, compressed once for all of them. */
export class Piece {
  readonly text: Buffer;
  #blocks: Buffer | null = null;

  constructor(text: Buffer) {
    this.text = text;
  }

  get blocks(): Buffer {
    return (this.#blocks ??= gzipBlocks(this.text));
  }
}

/** Server-sent events to one caller: the head, pieces of text, and two ways to end. */
export class EventStream {
  readonly #exchange: Exchange;
  readonly #response: ServerResponse;
  readonly #stallMs: number;
  readonly #gzip: GzipMember | null;
  readonly #clock: Clock;
  #stall: Timer | null = null;
  /** Bytes that the kernel had taken at the last stall check. */
  #sentBytes = 0;
  #isOver = false;
  isOpen = false;
  /** The socket's buffer is full. */
  isFull = false;

  /** `onDrain` is called when the socket was full and has drained. */
  constructor(exchange: Exchange, { clock, stallSeconds, isGzip }: StreamOptions, onDrain: () => void) {
    this.#exchange = exchange;
    this.#response = exchange.response;
    this.#clock = clock;
    this.#stallMs = stallSeconds * 1000;
    this.#gzip = isGzip ? new GzipMember() : null;
    this.#response.on("drain", () => {
      if (this.#isOver) return;
      this.#setFull(false);
      onDrain();
    });
    this.#response.once("close", () => {
      this.#isOver = true;
      this.#stall?.cancel();
    });
  }

  /** Whether nothing more can be sent. */
  get isClosed(): boolean {
    return this.#isOver || this.#response.destroyed;
  }

  /** `applied`: the preference of the caller that it follows. */
  open(timing: RunTiming | null, applied: string | null = null): void {
    this.isOpen = true;
    const headers = ["content-type", STREAM_TYPE, "cache-control", "no-cache", "x-accel-buffering", "no"];
    if (applied !== null) headers.push("preference-applied", applied);
    if (this.#gzip) headers.push("content-encoding", "gzip");
    headers.push("vary", "Accept-Encoding");
    // HTTP/1.0 has no chunks: there the end of the connection is the end of the stream.
    if (this.#exchange.request.httpVersion !== "1.0") headers.push("transfer-encoding", "chunked");
    this.#exchange.isEvents = true;
    this.#exchange.open(200, headers, timing);
    if (this.#gzip) this.#response.write(this.#gzip.begin());
    this.#response.flushHeaders();
  }

  /** Sends a piece; false if the socket is full. */
  send(piece: Piece): boolean {
    const isTaken = this.#response.write(this.#encode(piece));
    if (!isTaken) this.#setFull(true);
    return isTaken;
  }

  /** Flushes at once instead of at the end of the tick, for a sender that measures its time. */
  flush(): void {
    this.#response.socket?.uncork();
  }

  /** Sends the last piece and the end; if broken off, without the final chunk, so that it does not look complete. */
  end(last: Piece, isBrokenOff: boolean): void {
    if (this.isClosed) return;
    const rest = this.#encode(last);
    const all = this.#gzip ? Buffer.concat([rest, this.#gzip.end()]) : rest;
    this.#isOver = true;
    // A caller that reads nothing must not keep the connection and its buffer.
    this.#setFull(true);
    if (!isBrokenOff) this.#response.end(all);
    else if (this.#exchange.from) {
      // The forwarding node would take a broken connection for the loss of this node.
      this.#response.addTrailers({ [BROKEN_OFF_TRAILER]: "1" });
      this.#response.end(all);
    } else this.#response.write(all, () => this.#clock.after(LAST_WORD_MS, () => this.#response.destroy()));
  }

  /** Ends it soon, with a last piece, even if the caller does not read. */
  cutOff(last: Piece): void {
    if (this.#response.destroyed) return;
    this.end(last, true);
    this.#clock.after(CUT_OFF_MS, () => this.#exchange.drop());
  }

  #encode(piece: Piece): Buffer {
    const { text } = piece;
    return this.#gzip && text.length > 0 ? this.#gzip.add(text, piece.blocks) : text;
  }

  /** Drops a caller that takes no bytes for too long; a slow one is kept. */
  #setFull(isFull: boolean): void {
    if (isFull === this.isFull) return;
    this.isFull = isFull;
    if (!isFull) return;
    const { socket } = this.#response;
    this.#sentBytes = socket ? sentBytes(socket) : 0;
    if (this.#stall) this.#stall.restart();
    else this.#stall = this.#clock.after(this.#stallMs, () => this.#lookForStall());
  }

  #lookForStall(): void {
    if (!this.isFull) return;
    const { socket } = this.#response;
    const sent = socket ? sentBytes(socket) : 0;
    // Without a socket, an earlier answer is still being sent.
    if (socket && sent === this.#sentBytes) return this.#exchange.drop();
    this.#sentBytes = sent;
    this.#stall?.restart();
  }
}
