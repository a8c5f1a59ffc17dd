import type { Clock, Timer } from "../../kit/clock.ts";
import type { ResponseFlow, ResponseSink } from "../../replicas/call.ts";
import { fieldPairs } from "../../kit/http/fields.ts";
import type { ResponseHead } from "../../kit/http/response-parser.ts";
import type { LiveRun, RunEnd, RunReader, RunTiming } from "../../runs/live-run.ts";
import type { Exchange, GoneListener } from "../exchange.ts";
import { responseHeaders, responseTrailers } from "./headers.ts";

/** The caller of a server app: gets the response as it comes, and slows the server down when it does not read. */
export class ProxyAnswer implements RunReader, ResponseSink, GoneListener {
  readonly #exchange: Exchange;
  readonly #clock: Clock;
  readonly #stallMs: number;
  readonly #hold: ((end: () => void) => void) | null;
  #run: LiveRun | null = null;
  #head: ResponseHead | null = null;
  #flow: ResponseFlow | null = null;
  /** The first piece of the body, until the head leaves with it. */
  #first: Buffer | null = null;
  #stall: Timer | null = null;

  /** `hold` has a response of unknown length ended when its caller may read no more; null if that is not watched. */
  constructor(
    exchange: Exchange,
    clock: Clock,
    stallSeconds: number,
    hold: ((end: () => void) => void) | null,
  ) {
    this.#exchange = exchange;
    this.#clock = clock;
    this.#stallMs = stallSeconds * 1000;
    this.#hold = hold;
  }

  attach(run: LiveRun): void {
    this.#run = run;
    // Gone already, while the store was asked.
    if (this.#exchange.response.destroyed) run.cancel();
    this.#exchange.goneListener = this;
  }

  /** No caller reads the answer any more, so the server should stop. */
  onGone(): void {
    this.#stall?.cancel();
    this.#run?.cancel();
  }

  onStream(): void {}

  onChunk(): void {}

  onContinue(): void {
    const { response, head } = this.#exchange;
    // Only for callers that wait for it: HTTP/1.0 has no such answer.
    if (head?.isHeldBack && !response.headersSent && !response.destroyed) response.writeContinue();
  }

  // An error in these becomes this caller's answer; it must not reach the replica that calls them.

  onResponse(head: ResponseHead, flow: ResponseFlow): ResponseSink {
    this.#head = head;
    this.#flow = flow;
    process.nextTick(() => this.#attempt(() => this.#flush()));
    return this;
  }

  write(bytes: Buffer, onSent?: () => void): boolean {
    const { response } = this.#exchange;
    if (this.#head && this.#first === null) {
      this.#first = bytes;
      return true;
    }
    this.#attempt(() => this.#flush());
    return response.destroyed || response.writableEnded || this.#hasRoom(response.write(bytes, onSent));
  }

  trailers(given: readonly string[]): void {
    const trailers = responseTrailers(given, this.#exchange);
    this.#attempt(() => this.#exchange.response.addTrailers(fieldPairs(trailers)));
  }

  onEnd(end: RunEnd): void {
    this.#stall?.cancel();
    this.#attempt(() => this.#end(end));
  }

  #attempt(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#exchange.fault(error);
      this.#run?.cancel();
    }
  }

  #end({ outcome, response: answer, timing }: RunEnd): void {
    const exchange = this.#exchange;
    const { response } = exchange;
    if (outcome.kind === "responded") {
      const first = this.#first;
      this.#first = null;
      if (this.#head) this.#open(this.#head, timing);
      if (!response.destroyed && !response.writableEnded) exchange.close(first);
    } else if (this.#head === null && response.headersSent) {
      // Only a broken connection shows that the answer is incomplete.
      if (!response.writableEnded) response.destroy();
    } else exchange.answer(answer, timing);
  }

  /** Sends the head, with what has come of the body. */
  #flush(): void {
    const { response } = this.#exchange;
    if (!this.#head || !this.#run || response.destroyed) return;
    const first = this.#first;
    this.#first = null;
    // Only a broken connection shows that the answer is incomplete: the body is the app's own.
    if (this.#head.length === null) this.#hold?.(() => this.#exchange.drop());
    this.#open(this.#head, this.#run.timing());
    if (!first) response.flushHeaders();
    else if (!this.#hasRoom(response.write(first))) this.#flow?.pause();
  }

  #open(head: ResponseHead, timing: RunTiming): void {
    this.#head = null;
    if (this.#exchange.response.headersSent || this.#exchange.response.destroyed) return;
    const isChunked = this.#exchange.request.httpVersion === "1.1";
    const { headers, hasCors } = responseHeaders(head, isChunked, this.#exchange);
    this.#exchange.open(head.status, headers, timing, hasCors ? "app" : "all");
  }

  /** Whether the server may send more at once; if not, it may when the caller has read, or never. */
  #hasRoom(isTaken: boolean): boolean {
    if (isTaken) return true;
    const { response } = this.#exchange;
    if (this.#stall) return false;
    this.#stall = this.#clock.after(this.#stallMs, () => this.#exchange.drop());
    response.once("drain", () => {
      this.#stall?.cancel();
      this.#stall = null;
      this.#flow?.resume();
    });
    return false;
  }
}
