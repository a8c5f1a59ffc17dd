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

/** A stream that is silent for this long gets a comment, so that no proxy takes it for dead. */
export const HEARTBEAT_MS = 15_000;
/** Between the error that ends a stream and the end of the connection: time to be read. */
const LAST_WORD_MS = 50;
/** What a caller who is cut off has to read what was sent. */
const CUT_OFF_MS = 1_000;

/** Text that one or many callers get; it is compressed once for all of them. */
export class Piece {
  readonly text: Buffer;
  #blocks: Buffer | null = null;

  constructor(text: Buffer) {
    this.text = text;
  }

  /** The same as blocks of a gzip member. */
  get blocks(): Buffer {
    return (this.#blocks ??= gzipBlocks(this.text));
  }
}

/** Server-sent events on their way to one caller: the head, pieces of text, and the two ways to end. */
export class EventStream {
  readonly #exchange: Exchange;
  readonly #response: ServerResponse;
  readonly #stallMs: number;
  readonly #gzip: GzipMember | null;
  readonly #clock: Clock;
  #stall: Timer | null = null;
  /** How many bytes the kernel had taken at the last check for a stall. */
  #sentBytes = 0;
  #isOver = false;
  isOpen = false;
  /** Bytes wait for the caller to take them. */
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

  /** Nothing can be sent any more. */
  get isClosed(): boolean {
    return this.#isOver || this.#response.destroyed;
  }

  /** Sends the head. */
  open(timing: RunTiming | null): void {
    this.isOpen = true;
    const headers = ["content-type", STREAM_TYPE, "cache-control", "no-cache", "x-accel-buffering", "no"];
    if (this.#gzip) headers.push("content-encoding", "gzip");
    headers.push("vary", "Accept-Encoding");
    // HTTP/1.0 has no chunks: there the end of the connection is the end of the stream.
    if (this.#exchange.request.httpVersion !== "1.0") headers.push("transfer-encoding", "chunked");
    this.#exchange.openEvents(headers, timing);
    if (this.#gzip) this.#response.write(this.#gzip.begin());
    this.#response.flushHeaders();
  }

  /** Sends a piece; false if the socket is full. */
  send(piece: Piece): boolean {
    const isTaken = this.#response.write(this.#encode(piece));
    if (!isTaken) this.#setFull(true);
    return isTaken;
  }

  /** Hands what was sent to the kernel now and not at the end of the tick, for a sender that measures its time. */
  flush(): void {
    this.#response.socket?.uncork();
  }

  /** Sends the last piece and the end. If broken off, it omits the last chunk, so nobody takes it for complete. */
  end(last: Piece, isBrokenOff: boolean): void {
    if (this.isClosed) return;
    const rest = this.#encode(last);
    const all = this.#gzip ? Buffer.concat([rest, this.#gzip.end()]) : rest;
    this.#isOver = true;
    // The run is over, but a caller who takes nothing would keep the connection and what is written to it.
    this.#setFull(true);
    if (!isBrokenOff) this.#response.end(all);
    else if (this.#exchange.from) {
      // The node that passes it on would take a broken connection for the loss of this node.
      this.#response.addTrailers({ [BROKEN_OFF_TRAILER]: "1" });
      this.#response.end(all);
    } else this.#response.write(all, () => this.#clock.after(LAST_WORD_MS, () => this.#response.destroy()));
  }

  /** Ends it soon, whether or not the caller reads: with a last piece, unless its end is already on its way. */
  cutOff(last: Piece): void {
    if (this.#response.destroyed) return;
    this.end(last, true);
    this.#clock.after(CUT_OFF_MS, () => this.#exchange.drop());
  }

  #encode(piece: Piece): Buffer {
    const { text } = piece;
    return this.#gzip && text.length > 0 ? this.#gzip.add(text, piece.blocks) : text;
  }

  /** While bytes are waiting, a caller who takes none for too long is dropped; a slow one is not. */
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
    // Without a socket, an earlier answer on the connection is still being sent.
    if (socket && sent === this.#sentBytes) {
      this.#exchange.drop();
      return;
    }
    this.#sentBytes = sent;
    this.#stall?.restart();
  }
}
