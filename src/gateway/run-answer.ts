import type { Clock, Timer } from "../kit/clock.ts";
import type { Chunk } from "../replicas/call.ts";
import type { LiveRun, RunEnd, RunReader, RunTiming } from "../runs/live-run.ts";
import type { QueueWatch } from "../runs/queue/watch.ts";
import { plainChunk, respondError } from "../runs/response.ts";
import { placeRecord } from "../shapes/runs.ts";
import { prefersProgress, takesGzip, wantsEvents } from "./request-head.ts";
import type { Authenticator } from "./authenticate.ts";
import type { Exchange, GoneListener } from "./exchange.ts";
import type { CheckedCall } from "./app-request.ts";
import { AppError, errorBody } from "../model/errors.ts";
import { SseBuffer, type SseMode } from "../runs/sse.ts";
import { EventStream, HEARTBEAT_MS, Piece, type StreamOptions } from "./event-stream.ts";

/** How long a caller waits, and what happens to the run then. */
type Patience = {
  readonly waitMs: number;
  /** Turns the run into an async one and tells the caller; false if that failed. */
  adopt(run: LiveRun, answer: RunAnswer): Promise<boolean>;
};

type RunAnswerParts = {
  readonly clock: Clock;
  readonly authenticator: Pick<Authenticator, "hold">;
  readonly queueWatch: Pick<QueueWatch, "watch">;
};

/** How much of an answer an error shows. */
const MAX_SHOWN_CHARS = 1_000;

/** The caller that waits for a run: one JSON answer, or an event stream if the function returns an iterator. */
export class RunAnswer implements RunReader, GoneListener {
  readonly #call: CheckedCall;
  readonly #exchange: Exchange;
  readonly #parts: RunAnswerParts;
  readonly #patience: Patience | null;
  #run: LiveRun | null = null;
  #stream: StreamAnswer | null = null;
  #timer: Timer | null = null;
  #leaveQueue: (() => void) | null = null;
  #isGone = false;
  #isAdopted = false;

  constructor(call: CheckedCall, parts: RunAnswerParts, patience: Patience | null) {
    this.#call = call;
    this.#exchange = call.exchange;
    this.#parts = parts;
    this.#patience = patience;
  }

  /** Connects it to its run. If the caller leaves, the run stops or continues as the caller asked. */
  attach(run: LiveRun): void {
    this.#run = run;
    const { response } = this.#exchange;
    // Gone already, while the store was asked.
    if (response.destroyed) this.#leave(run);
    this.#exchange.goneListener = this;
    const patience = this.#patience;
    if (run.end) return;
    if (this.#wantsProgress() && run.call.holder === null) return this.#tellPlaces(run);
    if (!patience) return;
    const adopt = async (): Promise<void> => {
      this.#isAdopted = await patience.adopt(run, this);
    };
    this.#timer = this.#parts.clock.after(patience.waitMs, () => this.#exchange.attempt(adopt));
  }

  /** Only a stream can tell anything before its answer. */
  #wantsProgress(): boolean {
    const { prefer, accept } = this.#call.head;
    return prefer !== null && prefersProgress(prefer) && wantsEvents(accept);
  }

  /** Sends the headers now, and what the run waits for until it begins. */
  #tellPlaces(run: LiveRun): void {
    this.#exchange.attempt(() => {
      this.#stream = this.#openStream();
      this.#stream?.openWaiting();
      const { appNumber } = run.request.target;
      const waiting = { appNumber, id: run.request.id, live: run };
      this.#leaveQueue = this.#parts.queueWatch.watch(waiting, (place) => {
        if (place)
          this.#exchange.attempt(() => this.#stream?.comment(`queue ${JSON.stringify(placeRecord(place))}`));
        else this.#stopTelling();
      });
    });
  }

  #stopTelling(): void {
    this.#leaveQueue?.();
    this.#leaveQueue = null;
  }

  onGone(): void {
    if (this.#run && !this.#isAdopted) this.#leave(this.#run);
  }

  // Errors in these three are answered here; they must not reach the replica or the pool.

  onStream(): void {
    this.#exchange.attempt(() => {
      this.#timer?.cancel();
      this.#stopTelling();
      if (!this.#isGone) this.#stream ??= this.#openStream();
      else if (this.#call.head.xDisconnect !== "continue") this.#run?.cancel();
    });
  }

  onChunk(chunk: Chunk): void {
    try {
      if (this.#isGone) this.#run?.grantUnread(chunk.wireBytes);
      else this.#stream?.chunk(chunk);
    } catch (error) {
      this.#exchange.fault(error);
    }
  }

  onEnd(end: RunEnd): void {
    const { outcome, response, timing } = end;
    try {
      this.#timer?.cancel();
      this.#stopTelling();
      const isPlain = outcome.kind === "returned";
      if (this.#stream && isPlain) this.#endPlain(this.#stream, outcome.json, end);
      else if (this.#stream) this.#stream.end(end);
      else if (outcome.kind === "returned" && response.status < 300 && wantsEvents(this.#call.head.accept)) {
        const stream = this.#openStream();
        if (stream) this.#endPlain(stream, outcome.json, end);
      } else this.#exchange.answer(response, timing);
    } catch (error) {
      this.#exchange.fault(error);
    }
  }

  /** A plain value becomes a stream of one event. Its status, if it has one of its own, can be told no more. */
  #endPlain(stream: StreamAnswer, json: Buffer, end: RunEnd): void {
    const { status } = end.response;
    const message = `The function answered with the status ${status}, and: ${json.toString().slice(0, MAX_SHOWN_CHARS)}`;
    if (status < 300) stream.chunk({ ...plainChunk(json), wireBytes: 0 });
    stream.end(
      status < 300
        ? end
        : { ...end, response: respondError(this.#exchange.id, new AppError("app_error", { message })) },
    );
  }

  #openStream(): StreamAnswer | null {
    if (!this.#run) return null;
    const { live, token } = this.#call;
    const { clock, authenticator } = this.#parts;
    const { deployment, limits } = live.version.config;
    const stream = new StreamAnswer(this.#exchange, this.#run, {
      sse: deployment.sse,
      isGzip: takesGzip(this.#call.head.acceptEncoding),
      stallSeconds: limits.streamStallTimeoutSeconds,
      clock,
    });
    if (token && !deployment.disableAuth)
      authenticator.hold(this.#call, "function", token, (error) => stream.refuse(error));
    return stream;
  }

  #leave(run: LiveRun): void {
    this.#isGone = true;
    this.#timer?.cancel();
    this.#stopTelling();
    this.#stream?.close();
    const wish = this.#call.head.xDisconnect;
    if (wish === "cancel" || (this.#stream && wish !== "continue")) run.cancel();
    else run.detach();
  }
}

/** The longest time before the headers are sent, even if the generator is slow. */
const HEAD_AFTER_MS = 1_000;

/**
 * The stream of a run to its caller. Messages of one tick are sent in one write; bytes that were sent, or that a full
 * socket has taken since, are granted to the generator again.
 */
class StreamAnswer {
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

  /** Sends the headers before the run begins. */
  openWaiting(): void {
    this.#headTimer.cancel();
    this.#open(null, "progress");
  }

  /** Sends a line that parsers skip, unless the caller is slow: the next one will say more. */
  comment(text: string): void {
    if (this.#stream.isFull || this.#stream.isClosed) return;
    this.#messages.addComment(text);
    this.#send();
  }

  chunk(chunk: Chunk): void {
    this.#messages.addChunk(chunk);
    this.#owedBytes += chunk.wireBytes;
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    setImmediate(() => this.#exchange.attempt(() => this.#flush()));
  }

  /** Sends the last messages and the end. An error after the head is the last message, without a proper end. */
  end({ response, timing }: RunEnd): void {
    this.#headTimer.cancel();
    const stream = this.#stream;
    if (response.error && !stream.isOpen && this.#messages.bytes === 0)
      return this.#exchange.answer(response, timing);
    if (!stream.isOpen && !stream.isClosed) stream.open(timing);
    if (response.error) this.#messages.addEvent("error", errorBody(response.error, this.#run.request.id));
    this.#heartbeat?.cancel();
    stream.end(new Piece(this.#messages.take()), response.error !== null);
  }

  /** Tells the caller why its permission has ended, and cuts it off. */
  refuse(error: AppError): void {
    this.#headTimer.cancel();
    this.#heartbeat?.cancel();
    if (!this.#stream.isOpen) return this.#exchange.breakOff(error);
    this.#messages.addEvent("error", errorBody(error, this.#run.request.id));
    this.#stream.cutOff(new Piece(this.#messages.take()));
    // A forwarding node gets a complete answer, so nothing else reports that the caller is gone.
    if (this.#exchange.from) this.#exchange.goneListener?.onGone();
  }

  /** The caller has gone. */
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
      this.#open(this.#run.timing(), null);
    }
    if (this.#send()) this.#pay();
  }

  #open(timing: RunTiming | null, applied: string | null): void {
    this.#stream.open(timing, applied);
    this.#heartbeat = this.#clock.after(HEARTBEAT_MS, () => this.#beat());
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
