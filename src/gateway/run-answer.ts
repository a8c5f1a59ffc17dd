import type { LiveApp } from "../apps/catalog.ts";
import type { Chunk } from "../replicas/call.ts";
import type { LiveRun, RunEnd, RunReader } from "../runs/execute.ts";
import { takesGzip, wantsEvents } from "./accepts.ts";
import type { Exchange } from "./exchange.ts";
import type { RequestHead } from "./request-head.ts";
import { StreamAnswer } from "./stream-answer.ts";

/** The caller who waits for a run: one JSON answer, or a stream of events if the function gives an iterator. */
export class RunAnswer implements RunReader {
  readonly #exchange: Exchange;
  readonly #head: RequestHead;
  readonly #live: LiveApp;
  #run: LiveRun | null = null;
  #stream: StreamAnswer | null = null;
  #isGone = false;

  constructor(exchange: Exchange, head: RequestHead, live: LiveApp) {
    this.#exchange = exchange;
    this.#head = head;
    this.#live = live;
  }

  /** Ties it to its run, which ends or goes on without the caller as that one asked. */
  follow(run: LiveRun): void {
    this.#run = run;
    const { response } = this.#exchange;
    response.on("close", () => {
      if (!response.writableFinished) this.#leave(run);
    });
  }

  onStream(): void {
    if (!this.#isGone) this.#stream = this.#openStream();
    else if (this.#head.xDisconnect !== "continue") this.#run?.cancel();
  }

  onChunk(chunk: Chunk): void {
    if (this.#isGone) this.#run?.grant(chunk.wireBytes);
    else this.#stream?.chunk(chunk);
  }

  onEnd(end: RunEnd): void {
    if (this.#stream) this.#stream.end(end);
    else if (end.outcome.kind === "returned" && end.response.status < 300 && wantsEvents(this.#head.accept)) {
      this.#answerAsStream(end, end.outcome.json);
    } else this.#exchange.answer(end.response, end.timing);
  }

  /** A plain value, asked for as a stream: as if it had been yielded. */
  #answerAsStream(end: RunEnd, json: Buffer): void {
    const stream = this.#openStream();
    const isText = json[0] === QUOTE;
    const bytes = isText ? Buffer.from(JSON.parse(json.toString()) as string) : json;
    stream?.chunk({ isText, bytes, wireBytes: 0 });
    stream?.end(end);
  }

  #openStream(): StreamAnswer | null {
    if (!this.#run) return null;
    const { deployment, limits } = this.#live.version.config;
    return new StreamAnswer(this.#exchange, this.#run, {
      sse: deployment.sse,
      isGzip: takesGzip(this.#head.acceptEncoding),
      stallSeconds: limits.streamStallTimeoutSeconds,
    });
  }

  #leave(run: LiveRun): void {
    this.#isGone = true;
    this.#stream?.close();
    const wish = this.#head.xDisconnect;
    if (wish === "cancel" || (this.#stream && wish !== "continue")) run.cancel();
    else run.forsake();
  }
}

const QUOTE = 0x22;
