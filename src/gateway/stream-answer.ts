import type { ServerResponse } from "node:http";
import { errorBody } from "../model/errors.ts";
import type { Chunk } from "../replicas/call.ts";
import type { LiveRun, RunEnd, RunTiming } from "../runs/execute.ts";
import { STREAM_TYPE } from "../runs/response.ts";
import { SseBuffer } from "../runs/sse.ts";
import type { Exchange } from "./exchange.ts";
import { GzipMember } from "./gzip-member.ts";

export type StreamOptions = {
  readonly sse: "auto" | "wrap";
  readonly isGzip: boolean;
  readonly stallSeconds: number;
};

/** A generator that takes its time must not leave its caller without a word. */
const HEAD_AFTER_MS = 1_000;
const HEARTBEAT_MS = 15_000;
/** Between the error that ends a stream and the end of the connection: time to be read. */
const LAST_WORD_MS = 50;

/**
 * Server-sent events to one caller. Messages of one tick leave in one write; what has left, or is taken by the
 * caller's side after it was full, is granted to the generator again.
 */
export class StreamAnswer {
  readonly #exchange: Exchange;
  readonly #response: ServerResponse;
  readonly #run: LiveRun;
  readonly #options: StreamOptions;
  readonly #messages: SseBuffer;
  readonly #gzip: GzipMember | null;
  #isOpen = false;
  #isFlushing = false;
  #isOver = false;
  #owedBytes = 0;
  #headTimer: NodeJS.Timeout | undefined;
  #heartbeat: NodeJS.Timeout | undefined;
  /** Bytes wait for the caller to take them. */
  #isFull = false;

  constructor(exchange: Exchange, run: LiveRun, options: StreamOptions) {
    this.#exchange = exchange;
    this.#response = exchange.response;
    this.#run = run;
    this.#options = options;
    this.#messages = new SseBuffer(options.sse);
    this.#gzip = options.isGzip ? new GzipMember() : null;
    this.#headTimer = setTimeout(() => this.#flush(), HEAD_AFTER_MS);
    this.#response.on("drain", () => this.#onDrain());
    this.#response.on("timeout", () => this.#response.destroy());
    // Before Node looks at the next request of the connection: that one may take its time.
    this.#response.prependOnceListener("finish", () => this.#setFull(false));
  }

  chunk(chunk: Chunk): void {
    this.#messages.addChunk(chunk);
    this.#owedBytes += chunk.wireBytes;
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    setImmediate(() => this.#flush());
  }

  /** The last messages, then the end; an error after the head is the last message, and no proper end follows. */
  end({ response, timing }: RunEnd): void {
    if (response.error && !this.#isOpen && this.#messages.bytes === 0) {
      this.#stopTimers();
      this.#exchange.answer(response, timing);
      return;
    }
    if (!this.#isOpen && !this.#response.destroyed) this.#open(timing);
    this.#stopTimers();
    if (this.#response.destroyed) return;
    if (response.error) this.#messages.addEvent("error", errorBody(response.error, this.#run.request.id));
    const rest = this.#encode(this.#messages.take());
    const last = this.#gzip ? Buffer.concat([rest, this.#gzip.end()]) : rest;
    this.#isOver = true;
    // The run is over, but a caller who takes nothing would keep the connection and what is written to it.
    this.#setFull(true);
    if (response.error) this.#breakOff(last);
    else this.#response.end(last);
  }

  /** The caller has gone; what was sent is not waited for. */
  close(): void {
    this.#stopTimers();
    this.#pay();
  }

  #open(timing: RunTiming): void {
    this.#isOpen = true;
    clearTimeout(this.#headTimer);
    const headers = ["content-type", STREAM_TYPE, "cache-control", "no-cache", "x-accel-buffering", "no"];
    if (this.#gzip) headers.push("content-encoding", "gzip");
    headers.push("vary", "Accept-Encoding");
    // HTTP/1.0 has no chunks: there the end of the connection is the end of the stream.
    if (this.#exchange.request.httpVersion !== "1.0") headers.push("transfer-encoding", "chunked");
    this.#exchange.open(200, headers, timing);
    if (this.#gzip) this.#response.write(this.#gzip.begin());
    this.#response.flushHeaders();
    this.#heartbeat = setTimeout(() => this.#beat(), HEARTBEAT_MS);
  }

  #flush(): void {
    this.#isFlushing = false;
    if (this.#isOver || this.#response.destroyed) return;
    if (!this.#isOpen) this.#open(this.#run.timing());
    if (this.#messages.bytes === 0) return;
    const isTaken = this.#response.write(this.#encode(this.#messages.take()));
    this.#heartbeat?.refresh();
    if (isTaken) this.#pay();
    else this.#setFull(true);
  }

  #encode(text: Buffer): Buffer {
    return this.#gzip && text.length > 0 ? this.#gzip.add(text) : text;
  }

  #onDrain(): void {
    if (this.#isOver) return;
    this.#setFull(false);
    this.#pay();
  }

  #pay(): void {
    this.#run.grant(this.#owedBytes);
    this.#owedBytes = 0;
  }

  #beat(): void {
    this.#heartbeat?.refresh();
    if (this.#isFull) return;
    this.#messages.addComment("");
    this.#flush();
  }

  /**
   * While bytes wait, a caller who takes none for too long is as good as gone. The socket's own clock looks at
   * what leaves it, so that a caller who is slow is not taken for one who has stopped.
   */
  #setFull(isFull: boolean): void {
    if (isFull === this.#isFull) return;
    this.#isFull = isFull;
    this.#response.setTimeout(isFull ? this.#options.stallSeconds * 1000 : 0);
  }

  /** Without its last chunk the answer is incomplete, and nobody takes it for a whole one. */
  #breakOff(last: Buffer): void {
    this.#response.write(last, () => setTimeout(() => this.#response.destroy(), LAST_WORD_MS));
  }

  #stopTimers(): void {
    clearTimeout(this.#headTimer);
    clearTimeout(this.#heartbeat);
  }
}
