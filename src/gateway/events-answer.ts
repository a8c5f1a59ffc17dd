import { errorBody } from "../model/errors.ts";
import type { AppError } from "../model/errors.ts";
import { isFinal } from "../model/run.ts";
import { runRecord } from "../shapes/run-record.ts";
import type { KnownRun, RunLookup } from "../runs/lookup.ts";
import { EventStream } from "./event-stream.ts";
import type { StreamOptions } from "./event-stream.ts";
import type { Exchange } from "./exchange.ts";

export type EventsOptions = StreamOptions & {
  readonly app: { readonly projectId: string; readonly name: string };
  /** The number of the last event the reader has; 0 for none. */
  readonly after: number;
  /** Has `end` called when the reader's right to the run ends. */
  readonly hold: (end: (error: AppError) => void) => void;
};

const NO_CONTENT = { status: 204, contentType: null, body: Buffer.alloc(0), headers: {}, error: null };

/**
 * A run's transcript to whoever asks, from any place in it, live or later. It is read as fast as this reader
 * takes it, and the generator knows nothing of it.
 */
export class EventsAnswer {
  readonly #exchange: Exchange;
  readonly #lookup: RunLookup;
  readonly #options: EventsOptions;
  readonly #stream: EventStream;
  /** The reader has gone. */
  readonly #left = new AbortController();
  #after: number;
  #onTaken: () => void = () => undefined;

  constructor(exchange: Exchange, lookup: RunLookup, options: EventsOptions) {
    this.#exchange = exchange;
    this.#lookup = lookup;
    this.#options = options;
    this.#after = options.after;
    this.#stream = new EventStream(exchange, options, () => this.#onTaken());
  }

  async send(first: KnownRun): Promise<void> {
    if (await this.#hasAll(first)) {
      this.#exchange.answer(NO_CONTENT);
      return;
    }
    const stream = this.#stream;
    if (stream.isClosed) return;
    this.#exchange.response.once("close", () => {
      stream.stop();
      this.#left.abort();
      this.#onTaken();
    });
    stream.open(null);
    this.#options.hold((error) => stream.cutOff(errorBody(error, this.#exchange.id)));
    const last = await this.#follow(first);
    if (stream.isClosed) return;
    if (last) this.#addEnd(last);
    stream.end(last === null);
  }

  /** Whether the reader has the end of the run already. */
  async #hasAll({ run, transcript }: KnownRun): Promise<boolean> {
    return this.#after > 0 && isFinal(run.state) && (await transcript.read(this.#after - 1)) === null;
  }

  /** Reads until the run has ended, wherever it moves meanwhile; null if it is gone. */
  async #follow(first: KnownRun): Promise<KnownRun | null> {
    let known: KnownRun | null = first;
    let hasFollowed = false;
    while (known) {
      // A reader who has followed a run to its end has missed nothing, even if earlier events are no longer stored.
      if (!known.isKept && !hasFollowed) this.#addTruncated(null);
      await this.#read(known);
      if (isFinal(known.run.state) || this.#stream.isClosed) break;
      hasFollowed = known.live !== null;
      known = await this.#lookup.findLater(known, this.#left.signal);
    }
    return known;
  }

  async #read({ transcript }: KnownRun): Promise<void> {
    const stream = this.#stream;
    while (!stream.isClosed) {
      const chunks = await transcript.read(this.#after, this.#left.signal);
      if (!chunks || stream.isClosed) return;
      const [next] = chunks;
      if (next && next.event > this.#after + 1) this.#addTruncated(next.event);
      for (const chunk of chunks) stream.messages.addNumbered(chunk.event, chunk);
      this.#after = chunks.at(-1)?.event ?? this.#after;
      if (!stream.flush()) await new Promise<void>((resolve) => (this.#onTaken = resolve));
    }
  }

  /** Events before this number are no longer stored; null if none are stored. */
  #addTruncated(firstEvent: number | null): void {
    this.#stream.messages.addEvent("truncated", JSON.stringify({ firstEvent }));
  }

  #addEnd({ run }: KnownRun): void {
    const record = JSON.stringify(runRecord(run, this.#options.app));
    this.#stream.messages.addEvent("end", record, this.#after + 1);
  }
}
