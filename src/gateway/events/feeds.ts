import type { Clock } from "../../kit/clock.ts";
import { TimeSlicer } from "../../kit/event-loop.ts";
import type { App } from "../../model/app.ts";
import { AppError, errorBody } from "../../model/errors.ts";
import { isFinal } from "../../model/run.ts";
import type { KnownRun, RunLookup } from "../../runs/lookup.ts";
import type { QueueWatch } from "../../runs/queue/watch.ts";
import { SseBuffer, type SseMode } from "../../runs/sse.ts";
import type { Exchange } from "../exchange.ts";
import { type EndedRun, Feed, type FeedReader, isEndNumber } from "./feed.ts";
import { EventStream, Piece, type StreamOptions } from "../event-stream.ts";

type FeedsParts = {
  readonly lookup: Pick<RunLookup, "findLater">;
  readonly queueWatch: Pick<QueueWatch, "watch">;
  readonly clock: Clock;
  readonly readerLimits?: ReaderLimits;
};

/** The maximum number of readers of one run, and of all runs of one project. */
type ReaderLimits = { readonly ofRun: number; readonly ofProject: number };

/** The run, and how its app's own event text is treated. */
type Source = {
  readonly app: Pick<App, "number" | "projectId" | "name">;
  readonly runId: string;
  readonly sse: SseMode;
};

type EventsRequest = Source & {
  /** The number of the last event that the reader has; 0 for none. */
  readonly after: number;
  readonly isGzip: boolean;
  readonly stallSeconds: number;
  /** Calls `end` when the reader's permission ends. */
  readonly hold: (end: (error: AppError) => void) => void;
};

/** A reader takes 20 to 35 kB. A project leaves a quarter of the default `max_connections` to others. */
export const READER_LIMITS: ReaderLimits = { ofRun: 5_000, ofProject: 7_500 };
const RETRY_AFTER = { "retry-after": "5" };
const NO_CONTENT = { status: 204, contentType: null, body: Buffer.alloc(0), headers: {}, error: null };

/** The feeds of all runs that are being read. */
export class Feeds {
  readonly #parts: FeedsParts;
  readonly #limits: ReaderLimits;
  readonly #turns: TimeSlicer;
  readonly #feeds = new Map<string, Feed>();
  readonly #ofProject = new Map<string, number>();

  constructor(parts: FeedsParts) {
    this.#parts = parts;
    this.#limits = parts.readerLimits ?? READER_LIMITS;
    this.#turns = new TimeSlicer(parts.clock);
  }

  /** The run as its readers see it; null if it has none. */
  known(source: Source): KnownRun | null {
    return this.#feeds.get(keyOf(source))?.known ?? null;
  }

  /** Throws `too_many_requests` if the run or the project has the maximum number of readers. */
  requireRoom(source: Source): void {
    const { ofRun, ofProject } = this.#limits;
    if ((this.#feeds.get(keyOf(source))?.size ?? 0) >= ofRun) throw tooMany("run", ofRun);
    if ((this.#ofProject.get(source.app.projectId) ?? 0) >= ofProject) throw tooMany("project", ofProject);
  }

  /** Sends the run's events until it ends or the reader leaves; 204 to a reader that has had the end. */
  async answer(exchange: Exchange, known: KnownRun, request: EventsRequest): Promise<void> {
    const { after } = request;
    if (isEndNumber(await this.#endOf(known, request), after)) return exchange.answer(NO_CONTENT);
    const { response } = exchange;
    if (response.destroyed) return;
    this.requireRoom(request);
    this.#count(request.app.projectId, 1);
    response.once("close", () => this.#count(request.app.projectId, -1));
    const feed = this.#feedOf(known, request);
    const answer = new EventsAnswer(exchange, feed, after, { ...request, clock: this.#parts.clock });
    request.hold((error) => answer.refuse(error));
    feed.join(answer);
  }

  /** How the run ended; null while it continues. */
  async #endOf(known: KnownRun, source: Source): Promise<EndedRun | null> {
    const open = this.#feeds.get(keyOf(source));
    if (open) return await open.ended();
    return isFinal(known.run.state) ? { ...known, last: await known.transcript.last() } : null;
  }

  #feedOf(known: KnownRun, request: EventsRequest): Feed {
    const { app, sse } = request;
    const key = keyOf(request);
    const open = this.#feeds.get(key);
    if (open) return open;
    const onEmpty = (): void => void this.#feeds.delete(key);
    const feed = new Feed(known, { ...this.#parts, turns: this.#turns, app, sse, onEmpty });
    this.#feeds.set(key, feed);
    return feed;
  }

  #count(projectId: string, change: number): void {
    const count = (this.#ofProject.get(projectId) ?? 0) + change;
    if (count > 0) this.#ofProject.set(projectId, count);
    else this.#ofProject.delete(projectId);
  }
}

/** Includes the app, because a run is visible in its own app only. */
function keyOf({ app, runId, sse }: Source): string {
  return `${app.number} ${runId} ${sse}`;
}

function tooMany(what: "run" | "project", limit: number): AppError {
  const message = `The ${what} has ${limit} connections that read events, which is the limit; close some, or try again later.`;
  return new AppError("too_many_requests", { message, headers: RETRY_AFTER });
}

/** The events of a run on one connection. */
class EventsAnswer implements FeedReader {
  after: number;
  noteNumber = 0;
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

  /** Tells the reader why its permission has ended, and cuts it off. */
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
