import type { KnownRun, RunLookup } from "../../runs/lookup.ts";
import type { Clock, Timer } from "../../kit/clock.ts";
import type { TimeSlicer, Work } from "../../kit/event-loop.ts";
import { isFinal } from "../../model/run.ts";
import type { Run } from "../../model/run.ts";
import { SseBuffer } from "../../runs/sse.ts";
import type { SseMode } from "../../runs/sse.ts";
import type { NumberedChunk } from "../../runs/transcript-parts.ts";
import { runRecord } from "../../shapes/runs.ts";
import { HEARTBEAT_MS, Piece } from "../event-stream.ts";

/**
 * The number of the `end` of a run that may have yielded more chunks than are stored. Larger than the number of any
 * chunk, so nobody who has read a chunk that is lost takes its number for the end's.
 */
export const FAR_END = 999_999_999_999_999;

/** An ended run, as its readers know it. */
export type EndedRun = Pick<KnownRun, "run" | "isKept"> & {
  /** The number of its last chunk. */
  readonly last: number;
};

/** The number of the `end` for a reader that has come as far as `after`. */
function endNumber(ended: EndedRun, after: number): number {
  return isCounted(ended) && after === ended.last ? after + 1 : FAR_END;
}

/** Whether the number is that of the `end`, and not of a chunk that was lost. */
export function isEndNumber(ended: EndedRun | null, number: number): boolean {
  return number === FAR_END || (ended !== null && isCounted(ended) && number === ended.last + 1);
}

/**
 * Whether the last stored chunk is known to be the last that any reader was given. It is not if the transcript is gone,
 * if the service died during the run, which loses the latest chunks, or if an earlier attempt was read.
 */
function isCounted({ run, isKept }: EndedRun): boolean {
  return isKept && run.errorCode !== "interrupted" && run.attempt === 1 && run.interruptions === 0;
}

/** One connection that reads a run's events. */
export type FeedReader = {
  /** The number of the last event it has. */
  after: number;
  /** Sends a piece; false if it takes no more for now: `Feed.resume` is called when it does. */
  send(piece: Piece): boolean;
  /** Sends the last piece. Broken off: the run's end is not in it. */
  end(last: Piece, isBrokenOff: boolean): void;
  /** What follows could not be read. */
  fail(error: unknown): void;
};

type FeedParts = {
  readonly lookup: Pick<RunLookup, "findLater">;
  readonly turns: TimeSlicer;
  readonly clock: Clock;
  readonly app: { readonly projectId: string; readonly name: string };
  readonly sse: SseMode;
  /** The last reader has left. */
  readonly onEmpty: () => void;
};

/** A run as its feed knows it. */
type FedRun = KnownRun & {
  /** All of it came through this feed: its readers have missed nothing, whether or not it is stored. */
  readonly isSeen: boolean;
};

/** What follows after an event. */
type Next =
  | { readonly kind: "chunks"; readonly chunks: readonly NumberedChunk[] }
  /** Null if the run is gone. */
  | { readonly kind: "end"; readonly ended: FedEnd | null }
  | { readonly kind: "failed"; readonly error: unknown };

type FedEnd = EndedRun & Pick<FedRun, "isSeen">;

/** The readers that have had the same events. */
class Place {
  readonly after: number;
  /** Those that get what follows. */
  readonly readers = new Set<FeedReader>();
  /** Those that get a sign of life first. */
  idle = new Set<FeedReader>();
  readonly beat: Timer;
  /** Null until it is known. */
  next: Next | null = null;
  /** What follows as text, made when the first reader has its turn: by then there may be more of it. */
  sent: { readonly piece: Piece; readonly to: number } | null = null;

  constructor(after: number, clock: Clock, onBeat: (place: Place) => void) {
    this.after = after;
    this.beat = clock.after(HEARTBEAT_MS, () => onBeat(this));
  }
}

const NOTHING = new Piece(Buffer.alloc(0));
const SIGN_OF_LIFE = new Piece(Buffer.from(": \n\n"));

/**
 * What the readers of one run share: each event is read and made into text once for all that are at the same place, and
 * one look tells all of them where the run has moved. They are served in turns, one write each; a reader that falls
 * behind gets all that has gathered in one write. Neither the run nor any other reader waits for one that is slow.
 */
export class Feed implements Work {
  readonly #parts: FeedParts;
  /** Each reader and its place; null while it takes no more. */
  readonly #readers = new Map<FeedReader, Place | null>();
  readonly #places = new Map<number, Place>();
  /** Places whose readers can be served, in their order. */
  readonly #ready = new Set<Place>();
  /** All readers have left. */
  readonly #left = new AbortController();
  #known: FedRun | null;
  #ended: Promise<FedEnd> | null = null;
  #looking: Promise<void> | null = null;

  constructor(first: KnownRun, parts: FeedParts) {
    this.#parts = parts;
    // Arguments and result may be large, and no reader of events wants them.
    this.#known = { ...first, payload: null, isSeen: false };
  }

  get size(): number {
    return this.#readers.size;
  }

  /** The run as it was last seen; null if it is gone. */
  get known(): KnownRun | null {
    return this.#known;
  }

  /** The run's end as far as it is known; null for one that goes on. */
  async ended(): Promise<EndedRun | null> {
    const known = this.#known;
    return known && isFinal(known.run.state) ? await this.#end(known) : null;
  }

  join(reader: FeedReader): void {
    this.#seat(reader);
  }

  /** The reader takes more again. */
  resume(reader: FeedReader): void {
    if (this.#readers.get(reader) === null) this.#seat(reader);
  }

  leave(reader: FeedReader): void {
    const place = this.#readers.get(reader);
    place?.readers.delete(reader);
    place?.idle.delete(reader);
    if (!this.#readers.delete(reader) || this.#readers.size > 0) return;
    this.#left.abort();
    for (const { beat } of this.#places.values()) beat.cancel();
    this.#parts.onEmpty();
  }

  /** Serves one reader. */
  step(): boolean {
    const [place] = this.#ready;
    if (!place) return false;
    const [idle] = place.idle;
    const [reader] = idle ? [idle] : place.readers;
    try {
      if (idle) this.#sign(place, idle);
      else if (reader && place.next) this.#serve(place, place.next, reader);
    } catch (error) {
      // It is the end of this reader alone.
      if (reader) this.leave(reader);
      reader?.fail(error);
    }
    if (place.idle.size === 0 && (place.next === null || place.readers.size === 0)) {
      this.#ready.delete(place);
      if (place.next) this.#places.delete(place.after);
    }
    return this.#ready.size > 0;
  }

  #seat(reader: FeedReader): void {
    const { after } = reader;
    let place = this.#places.get(after);
    if (!place) {
      place = new Place(after, this.#parts.clock, (silent) => this.#beat(silent));
      this.#places.set(after, place);
      void this.#fill(place);
    }
    place.readers.add(reader);
    this.#readers.set(reader, place);
    if (place.next) this.#wake(place);
  }

  #wake(place: Place): void {
    this.#ready.add(place);
    this.#parts.turns.add(this.#parts.app.projectId, this);
  }

  /** Nothing has followed for a while. */
  #beat(place: Place): void {
    place.beat.restart();
    for (const reader of place.readers) place.idle.add(reader);
    place.readers.clear();
    if (place.idle.size > 0) this.#wake(place);
  }

  #sign(place: Place, reader: FeedReader): void {
    place.idle.delete(reader);
    if (reader.send(SIGN_OF_LIFE)) place.readers.add(reader);
    else this.#readers.set(reader, null);
  }

  #serve(place: Place, next: Next, reader: FeedReader): void {
    place.readers.delete(reader);
    if (next.kind === "chunks") {
      const { piece, to } = (place.sent ??= this.#textOf(place.after, next.chunks));
      reader.after = to;
      if (reader.send(piece)) this.#seat(reader);
      else this.#readers.set(reader, null);
      return;
    }
    this.leave(reader);
    if (next.kind === "failed") reader.fail(next.error);
    else {
      place.sent ??= { piece: this.#endText(place.after, next.ended), to: place.after };
      reader.end(place.sent.piece, next.ended === null);
    }
  }

  async #fill(place: Place): Promise<void> {
    try {
      place.next = await this.#next(place.after);
    } catch (error) {
      place.next = { kind: "failed", error };
    }
    place.beat.cancel();
    if (place.readers.size + place.idle.size > 0) this.#wake(place);
    else this.#places.delete(place.after);
  }

  async #next(after: number): Promise<Next> {
    const { signal } = this.#left;
    for (;;) {
      const known = this.#known;
      if (!known || signal.aborted) return { kind: "end", ended: null };
      const ended = isFinal(known.run.state) ? await this.#end(known) : null;
      const chunks = ended && after >= ended.last ? null : await known.transcript.read(after, signal);
      if (chunks) return { kind: "chunks", chunks };
      if (ended) return { kind: "end", ended };
      await this.#look(known);
    }
  }

  /** An ended run with the number of its last chunk; read once. */
  async #end(known: FedRun): Promise<FedEnd> {
    this.#ended ??= known.transcript.last().then((last) => ({ ...known, last }));
    try {
      return await this.#ended;
    } catch (error) {
      this.#ended = null;
      throw error;
    }
  }

  /** Looks where a run has moved that gives no more here; once for all places that ask. */
  async #look(known: FedRun): Promise<void> {
    if (this.#known !== known) return;
    this.#looking ??= this.#moveOn(known).finally(() => (this.#looking = null));
    await this.#looking;
  }

  async #moveOn(known: FedRun): Promise<void> {
    const next = await this.#parts.lookup.findLater(known, this.#left.signal);
    // What the run gave here is read from here to its end, whether or not it is stored.
    const isSeen = known.live !== null && next !== null && isEndOf(known.run, next.run);
    const { transcript } = isSeen ? known : (next ?? known);
    this.#known = next && { ...next, payload: null, transcript, isSeen };
  }

  #textOf(after: number, chunks: readonly NumberedChunk[]): { readonly piece: Piece; readonly to: number } {
    const all = this.#known?.transcript.atHand(after) ?? chunks;
    const text = new SseBuffer(this.#parts.sse);
    const [first] = all;
    if (first && first.event > after + 1) addTruncated(text, first.event, null);
    for (const chunk of all) text.addNumbered(chunk.event, chunk);
    return { piece: new Piece(text.take()), to: all.at(-1)?.event ?? after };
  }

  #endText(after: number, ended: FedEnd | null): Piece {
    if (!ended) return NOTHING;
    const { isKept, isSeen, last } = ended;
    const text = new SseBuffer(this.#parts.sse);
    if (after !== last || !(isKept || isSeen)) addTruncated(text, null, last === 0 ? null : last);
    text.addEvent("end", JSON.stringify(runRecord(ended.run, this.#parts.app)), endNumber(ended, after));
    return new Piece(text.take());
  }
}

/** Whether the run has ended with this attempt: another one has a transcript of its own. */
function isEndOf({ attempt, interruptions }: Run, ended: Run): boolean {
  return isFinal(ended.state) && ended.attempt === attempt && ended.interruptions === interruptions;
}

/** Some of what follows is not stored: before `firstEvent` or, if there is none, after `lastEvent`. */
function addTruncated(text: SseBuffer, firstEvent: number | null, lastEvent: number | null): void {
  const gap = firstEvent === null ? { firstEvent, lastEvent } : { firstEvent };
  text.addEvent("truncated", JSON.stringify(gap));
}
