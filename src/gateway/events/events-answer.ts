import { EventStream } from "../event-stream.ts";
import type { Piece, StreamOptions } from "../event-stream.ts";
import type { Exchange } from "../exchange.ts";
import type { Feed, FeedReader } from "./feed.ts";

/** The events of a run to one connection, at the pace at which it reads. */
export class EventsAnswer implements FeedReader {
  after: number;
  readonly #exchange: Exchange;
  readonly #stream: EventStream;

  /** `after`: the number of the last event that the reader has; 0 for none. */
  constructor(exchange: Exchange, feed: Feed, after: number, options: StreamOptions) {
    this.after = after;
    this.#exchange = exchange;
    this.#stream = new EventStream(exchange, options, () => feed.resume(this));
    exchange.response.once("close", () => feed.leave(this));
    this.#stream.open(null);
  }

  send(piece: Piece): boolean {
    const stream = this.#stream;
    if (stream.isClosed) return false;
    const isTaken = stream.send(piece);
    stream.flush();
    return isTaken;
  }

  end(last: Piece, isBrokenOff: boolean): void {
    this.#stream.end(last, isBrokenOff);
  }

  fail(error: unknown): void {
    this.#exchange.fault(error);
  }
}
