import type { ServerResponse } from "node:http";
import type { Clock, Timer } from "../kit/clock.ts";
import type { RunTiming } from "../runs/live-run.ts";
import { STREAM_TYPE } from "../runs/response.ts";
import { SseBuffer } from "../runs/sse.ts";
import type { Exchange } from "./exchange.ts";
import { GzipMember } from "./gzip-member.ts";
import { sentBytes } from "./sent-bytes.ts";

export type StreamOptions = {
  readonly sse: "auto" | "wrap";
  readonly isGzip: boolean;
  readonly stallSeconds: number;
  readonly clock: Clock;
};

const HEARTBEAT_MS = 15_000;
/** Between the error that ends a stream and the end of the connection: time to be read. */
const LAST_WORD_MS = 50;

/** What a caller who is cut off has to read what was sent. */
const CUT_OFF_MS = 1_000;

/** Server-sent events on their way to one caller: head, messages, heartbeat, and the two ways to end. */
export class EventStream {
  readonly messages: SseBuffer;
  readonly #exchange: Exchange;
  readonly #response: ServerResponse;
  readonly #stallMs: number;
  readonly #gzip: GzipMember | null;
  readonly #clock: Clock;
  #heartbeat: Timer | null = null;
  #stall: Timer | null = null;
  /** How many bytes the kernel had taken at the last check for a stall. */
  #sentBytes = 0;
  #isOver = false;
  isOpen = false;
  /** Bytes wait for the caller to take them. */
  isFull = false;

  /** `onDrain` is called when the socket was full and has drained. */
  constructor(exchange: Exchange, options: StreamOptions, onDrain: () => void) {
    this.#exchange = exchange;
    this.#response = exchange.response;
    this.#clock = options.clock;
    this.#stallMs = options.stallSeconds * 1000;
    this.messages = new SseBuffer(options.sse);
    this.#gzip = options.isGzip ? new GzipMember() : null;
    this.#response.on("drain", () => {
      if (this.#isOver) return;
      this.#setFull(false);
      onDrain();
    });
    this.#response.once("close", () => this.#stall?.cancel());
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
    this.#exchange.open(200, headers, timing);
    if (this.#gzip) this.#response.write(this.#gzip.begin());
    this.#response.flushHeaders();
    this.#heartbeat = this.#clock.after(HEARTBEAT_MS, () => this.#beat());
  }

  /** Sends the messages gathered so far; false if the socket is full. */
  flush(): boolean {
    if (this.messages.bytes === 0) return !this.isFull;
    const isTaken = this.#response.write(this.#encode(this.messages.take()));
    this.#heartbeat?.restart();
    if (!isTaken) this.#setFull(true);
    return isTaken;
  }

  /** Sends the last messages and the end. If broken off, it omits the last chunk, so nobody takes it for complete. */
  end(isBrokenOff: boolean): void {
    this.stop();
    if (this.isClosed) return;
    const rest = this.#encode(this.messages.take());
    const last = this.#gzip ? Buffer.concat([rest, this.#gzip.end()]) : rest;
    this.#isOver = true;
    // The run is over, but a caller who takes nothing would keep the connection and what is written to it.
    this.#setFull(true);
    if (isBrokenOff)
      this.#response.write(last, () => this.#clock.after(LAST_WORD_MS, () => this.#response.destroy()));
    else this.#response.end(last);
  }

  /** Ends it with an error, soon and whether or not the caller reads. */
  cutOff(error: string): void {
    if (this.isClosed) return;
    this.messages.addEvent("error", error);
    this.end(true);
    this.#clock.after(CUT_OFF_MS, () => this.#response.destroy());
  }

  /** No more heartbeats. */
  stop(): void {
    this.#heartbeat?.cancel();
  }

  #encode(text: Buffer): Buffer {
    return this.#gzip && text.length > 0 ? this.#gzip.add(text) : text;
  }

  #beat(): void {
    this.#heartbeat?.restart();
    if (this.isFull || this.isClosed) return;
    this.messages.addComment("");
    this.flush();
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
      this.#response.destroy();
      return;
    }
    this.#sentBytes = sent;
    this.#stall?.restart();
  }
}
