import type { Clock, Timer } from "../kit/clock.ts";
import type { Chunk } from "../replicas/call.ts";
import type { LiveRun, RunEnd, RunReader } from "../runs/live-run.ts";
import { plainChunk } from "../runs/response.ts";
import { takesGzip, wantsEvents } from "./accepts.ts";
import type { Authenticator } from "./authenticate.ts";
import type { Exchange, GoneListener } from "./exchange.ts";
import type { RequestHead } from "./request-head.ts";
import type { CheckedCall } from "./checked-call.ts";
import { StreamAnswer } from "./stream-answer.ts";

/** How long a caller will wait, and what happens to the run then. */
export type Patience = {
  readonly waitMs: number;
  /** Whether the run is no longer the caller's, who has been told so. */
  adopt(run: LiveRun, answer: RunAnswer): Promise<boolean>;
};

type RunAnswerParts = { readonly clock: Clock; readonly authenticator: Pick<Authenticator, "hold"> };

/** The caller who waits for a run: one JSON answer, or a stream of events if the function gives an iterator. */
export class RunAnswer implements RunReader, GoneListener {
  readonly #call: CheckedCall;
  readonly #exchange: Exchange;
  readonly #head: RequestHead;
  readonly #parts: RunAnswerParts;
  readonly #patience: Patience | null;
  #run: LiveRun | null = null;
  #stream: StreamAnswer | null = null;
  #timer: Timer | null = null;
  #isGone = false;
  #isAdopted = false;

  constructor(call: CheckedCall, parts: RunAnswerParts, patience: Patience | null) {
    this.#call = call;
    this.#exchange = call.exchange;
    this.#head = call.head;
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
    if (this.#patience && !run.end) this.#wait(run, this.#patience);
  }

  onGone(): void {
    if (this.#run && !this.#isAdopted) this.#leave(this.#run);
  }

  // An error in these three becomes this caller's answer; it must not reach the replica or the pool that call them.

  onStream(): void {
    try {
      this.#timer?.cancel();
      if (!this.#isGone) this.#stream = this.#openStream();
      else if (this.#head.xDisconnect !== "continue") this.#run?.cancel();
    } catch (error) {
      this.#exchange.fault(error);
    }
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
    try {
      this.#answer(end);
    } catch (error) {
      this.#exchange.fault(error);
    }
  }

  #answer(end: RunEnd): void {
    this.#timer?.cancel();
    if (this.#stream) this.#stream.end(end);
    else if (end.outcome.kind === "returned" && end.response.status < 300 && wantsEvents(this.#head.accept)) {
      this.#answerAsStream(end, end.outcome.json);
    } else this.#exchange.answer(end.response, end.timing);
  }

  /** A plain value, asked for as a stream: as if it had been yielded. */
  #answerAsStream(end: RunEnd, json: Buffer): void {
    const stream = this.#openStream();
    stream?.chunk({ ...plainChunk(json), wireBytes: 0 });
    stream?.end(end);
  }

  #wait(run: LiveRun, patience: Patience): void {
    this.#timer = this.#parts.clock.after(patience.waitMs, () => {
      this.#exchange.attempt(async () => {
        this.#isAdopted = await patience.adopt(run, this);
      });
    });
  }

  #openStream(): StreamAnswer | null {
    if (!this.#run) return null;
    const { live, token } = this.#call;
    const { clock, authenticator } = this.#parts;
    const { deployment, limits } = live.version.config;
    const stream = new StreamAnswer(this.#exchange, this.#run, {
      sse: deployment.sse,
      isGzip: takesGzip(this.#head.acceptEncoding),
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
    this.#stream?.close();
    const wish = this.#head.xDisconnect;
    if (wish === "cancel" || (this.#stream && wish !== "continue")) run.cancel();
    else run.forsake();
  }
}
