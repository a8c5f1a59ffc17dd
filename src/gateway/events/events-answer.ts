import { errorBody } from "../../model/errors.ts";
import type { AppError } from "../../model/errors.ts";
import { SseBuffer } from "../../runs/sse.ts";
import { EventStream, Piece } from "../event-stream.ts";
import type { StreamOptions } from "../event-stream.ts";
import type { Exchange } from "../exchange.ts";
import type { Feed, FeedReader } from "./feed.ts";

/** The events of a run to one connection, at the pace at which it reads. */
export class EventsAnswer implements FeedReader {
  after: number;
  readonly #exchange: Exchange;
  readonly #feed: Feed;
  readonly #stream: EventStream;

  /** `after`: the number of the last event that the reader has; 0 for none. */
  constructor(exchange: Exchange, feed: Feed, after: number, options: StreamOptions) {
    this.after = after;
    this.#exchange = exchange;
    this.#feed = feed;
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

  /** The reader may read no more: it is told why, and cut off. */
  refuse(error: AppError): void {
    this.#feed.leave(this);
    const text = new SseBuffer("wrap");
    text.addEvent("error", errorBody(error, this.#exchange.id));
    this.#stream.cutOff(new Piece(text.take()));
  }

  fail(error: unknown): void {
    this.#exchange.fault(error);
  }
}
