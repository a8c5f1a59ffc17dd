import type { Clock, Timer } from "../kit/clock.ts";
import { errorBody } from "../model/errors.ts";
import type { AppError } from "../model/errors.ts";
import type { Chunk } from "../replicas/call.ts";
import type { LiveRun, RunEnd } from "../runs/live-run.ts";
import { SseBuffer } from "../runs/sse.ts";
import type { SseMode } from "../runs/sse.ts";
import { EventStream, HEARTBEAT_MS, Piece } from "./event-stream.ts";
import type { StreamOptions } from "./event-stream.ts";
import type { Exchange } from "./exchange.ts";

/** A slow generator must not leave its caller without headers for longer than this. */
const HEAD_AFTER_MS = 1_000;

/**
 * The stream of a run to the caller who waits for it. Messages of one tick leave in one write; what has left, or
 * is taken by the caller's side after it was full, is granted to the generator again.
 */
export class StreamAnswer {
  readonly #exchange: Exchange;
  readonly #run: LiveRun;
  readonly #stream: EventStream;
  readonly #messages: SseBuffer;
  readonly #headTimer: Timer;
  readonly #clock: Clock;
  #heartbeat: Timer | null = null;
  #isFlushing = false;
  #owedBytes = 0;

  constructor(exchange: Exchange, run: LiveRun, options: StreamOptions & { readonly sse: SseMode }) {
    this.#exchange = exchange;
    this.#run = run;
    this.#clock = options.clock;
    this.#messages = new SseBuffer(options.sse);
    this.#stream = new EventStream(exchange, options, () => this.#pay());
    this.#headTimer = options.clock.after(HEAD_AFTER_MS, () => exchange.attempt(() => this.#flush()));
  }

  chunk(chunk: Chunk): void {
    this.#messages.addChunk(chunk);
    this.#owedBytes += chunk.wireBytes;
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    setImmediate(() => this.#exchange.attempt(() => this.#flush()));
  }

  /** The last messages, then the end; an error after the head is the last message, and no proper end follows. */
  end({ response, timing }: RunEnd): void {
    this.#headTimer.cancel();
    const stream = this.#stream;
    if (response.error && !stream.isOpen && this.#messages.bytes === 0) {
      this.#exchange.answer(response, timing);
      return;
    }
    if (!stream.isOpen && !stream.isClosed) stream.open(timing);
    if (response.error) this.#messages.addEvent("error", errorBody(response.error, this.#run.request.id));
    this.#heartbeat?.cancel();
    stream.end(new Piece(this.#messages.take()), response.error !== null);
  }

  /** The caller may read no more: it is told why, and cut off. */
  refuse(error: AppError): void {
    this.#headTimer.cancel();
    this.#heartbeat?.cancel();
    if (!this.#stream.isOpen) return this.#exchange.breakOff(error);
    this.#messages.addEvent("error", errorBody(error, this.#run.request.id));
    this.#stream.cutOff(new Piece(this.#messages.take()));
    // Another node gets a whole answer, so nothing else says that the caller is gone.
    if (this.#exchange.from) this.#exchange.goneListener?.onGone();
  }

  /** The caller has gone; what was sent is not waited for. */
  close(): void {
    this.#headTimer.cancel();
    this.#heartbeat?.cancel();
    this.#pay();
  }

  #flush(): void {
    this.#isFlushing = false;
    const stream = this.#stream;
    if (stream.isClosed) return;
    if (!stream.isOpen) {
      this.#headTimer.cancel();
      stream.open(this.#run.timing());
      this.#heartbeat = this.#clock.after(HEARTBEAT_MS, () => this.#beat());
    }
    if (this.#send()) this.#pay();
  }

  /** Sends the messages gathered so far; false if the socket is full. */
  #send(): boolean {
    if (this.#messages.bytes === 0) return !this.#stream.isFull;
    this.#heartbeat?.restart();
    return this.#stream.send(new Piece(this.#messages.take()));
  }

  #beat(): void {
    this.#heartbeat?.restart();
    if (this.#stream.isFull || this.#stream.isClosed) return;
    this.#messages.addComment("");
    this.#send();
  }

  #pay(): void {
    this.#run.grant(this.#owedBytes);
    this.#owedBytes = 0;
  }
}
