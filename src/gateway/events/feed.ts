import type { KnownRun, RunLookup } from "../../runs/lookup.ts";
import { type Clock, pause, type Timer } from "../../kit/clock.ts";
import type { TimeSlicer, Work } from "../../kit/event-loop.ts";
import { isFinal, type Progress, type Run } from "../../model/run.ts";
import type { LiveRun } from "../../runs/live-run.ts";
import { SseBuffer, type SseMode } from "../../runs/sse.ts";
import type { NumberedChunk } from "../../runs/transcript-parts.ts";
import type { QueueWatch } from "../../runs/queue/watch.ts";
import { placeRecord, progressRecord, runRecord } from "../../shapes/runs.ts";
import { HEARTBEAT_MS, Piece } from "../event-stream.ts";

/** The number of the `end` event of a run with more chunks than are stored: larger than any chunk's. */
export const FAR_END = 999_999_999_999_999;

export type EndedRun = Pick<KnownRun, "run" | "isKept"> & { readonly last: number };

/** The number of the `end` event for a reader that has read up to `after`. */
function endNumber(ended: EndedRun, after: number): number {
  return isCounted(ended) && after === ended.last ? after + 1 : FAR_END;
}

/** Whether the number is that of the `end` event. */
export function isEndNumber(ended: EndedRun | null, number: number): boolean {
  return number === FAR_END || (ended !== null && isCounted(ended) && number === ended.last + 1);
}

/**
 * Whether the last stored chunk is certainly the last that any reader got. Not if the transcript is gone, the service
 * died during the run, or an earlier attempt was read.
 */
function isCounted({ run, isKept }: EndedRun): boolean {
  return isKept && run.errorCode !== "interrupted" && run.attempt === 1 && run.interruptions === 0;
}

/** One connection that reads a run's events. */
export type FeedReader = {
  /** The number of the last event it has. */
  after: number;
  /** The number of the last note that it has. */
  noteNumber: number;
  /** Sends a piece; false if the reader is full until `Feed.resume`. */
  send(piece: Piece): boolean;
  /** Sends the last piece; broken off if it does not contain the run's end. */
  end(last: Piece, isBrokenOff: boolean): void;
  /** The next events could not be read. */
  fail(error: unknown): void;
};

type FeedParts = {
  readonly lookup: Pick<RunLookup, "findLater">;
  readonly queueWatch: Pick<QueueWatch, "watch">;
  readonly turns: TimeSlicer;
  readonly clock: Clock;
  readonly app: { readonly projectId: string; readonly name: string };
  readonly sse: SseMode;
  /** The last reader has left. */
  readonly onEmpty: () => void;
};

type FedRun = KnownRun & {
  /** This feed has seen all of it, so its readers missed nothing, whether or not it is stored. */
  readonly isSeen: boolean;
};

/** What follows an event. */
type Next =
  | { readonly kind: "chunks"; readonly chunks: readonly NumberedChunk[] }
  /** Null if the run is gone. */
  | { readonly kind: "end"; readonly ended: FedEnd | null }
  | { readonly kind: "failed"; readonly error: unknown };

type FedEnd = EndedRun & Pick<FedRun, "isSeen">;

/** The readers that are at the same event. */
class Place {
  readonly after: number;
  /** Readers that wait for what follows. */
  readonly readers = new Set<FeedReader>();
  /** Readers that get a heartbeat first. */
  idle = new Set<FeedReader>();
  readonly heartbeat: Timer;
  /** Null until it is known. */
  next: Next | null = null;
  /** What follows as text, created for the first reader: by then there may be more of it. */
  sent: { readonly piece: Piece; readonly to: number } | null = null;

  constructor(after: number, clock: Clock, onSilence: (place: Place) => void) {
    this.after = after;
    this.heartbeat = clock.after(HEARTBEAT_MS, () => onSilence(this));
  }
}

/** Between two reports of progress that readers get. */
const PROGRESS_MS = 250;

const NOTHING = new Piece(Buffer.alloc(0));
const HEARTBEAT = new Piece(Buffer.from(": \n\n"));

/**
 * Shared by the readers of one run: each event is read and encoded once for all readers at the same place, and one
 * lookup tells them all where the run has moved. Readers are served in turns, one write each; one that falls behind
 * gets all that has gathered in one write. No reader delays the run or another reader.
 */
export class Feed implements Work {
  readonly #parts: FeedParts;
  /** Each reader's place; null while it is full. */
  readonly #readers = new Map<FeedReader, Place | null>();
  readonly #places = new Map<number, Place>();
  /** Places with readers to serve, in order. */
  readonly #ready = new Set<Place>();
  /** All readers have left. */
  readonly #left = new AbortController();
  #known: FedRun | null;
  #ended: Promise<FedEnd> | null = null;
  /** What its readers were told last besides events: its place in the queue, later its progress. Null: nothing, or no more. */
  #note: { readonly piece: Piece; readonly number: number } | null = null;
  /** Each note has a number, from 1. */
  #notes = 0;
  #watched: LiveRun | null = null;
  #leaveQueue: (() => void) | null = null;
  #looking: Promise<void> | null = null;

  constructor(first: KnownRun, parts: FeedParts) {
    this.#parts = parts;
    // Arguments and results may be large and are not needed here.
    this.#known = { ...first, payload: null, isSeen: false };
    this.#watch(first);
  }

  get size(): number {
    return this.#readers.size;
  }

  /** The run as last seen; null if it is gone. */
  get known(): KnownRun | null {
    return this.#known;
  }

  /** How the run ended; null while it continues. */
  async ended(): Promise<EndedRun | null> {
    const known = this.#known;
    return known && isFinal(known.run.state) ? await this.#end(known) : null;
  }

  /** The reader can take more. */
  resume(reader: FeedReader): void {
    if (this.#readers.get(reader) === null) this.join(reader);
  }

  leave(reader: FeedReader): void {
    const place = this.#readers.get(reader);
    place?.readers.delete(reader);
    place?.idle.delete(reader);
    if (!this.#readers.delete(reader) || this.#readers.size > 0) return;
    this.#left.abort();
    this.#leaveQueue?.();
    for (const { heartbeat } of this.#places.values()) heartbeat.cancel();
    this.#parts.onEmpty();
  }

  step(): boolean {
    const [place] = this.#ready;
    if (!place) return false;
    const [idle] = place.idle;
    const [reader] = idle ? [idle] : place.readers;
    try {
      if (idle) {
        place.idle.delete(idle);
        if (idle.send(this.#noteFor(idle))) place.readers.add(idle);
        else this.#readers.set(idle, null);
      } else if (reader && place.next) this.#serve(place, place.next, reader);
    } catch (error) {
      // Ends only this reader.
      if (reader) this.leave(reader);
      reader?.fail(error);
    }
    if (place.idle.size === 0 && (place.next === null || place.readers.size === 0)) {
      this.#ready.delete(place);
      if (place.next) this.#places.delete(place.after);
    }
    return this.#ready.size > 0;
  }

  /** Adds a reader, which gets what follows the last event that it has. */
  join(reader: FeedReader): void {
    const { after } = reader;
    let place = this.#places.get(after);
    if (!place) {
      place = new Place(after, this.#parts.clock, (silent) => this.#onSilence(silent));
      this.#places.set(after, place);
      void this.#fill(place);
    }
    const isBehind = this.#note !== null && reader.noteNumber < this.#note.number;
    (isBehind ? place.idle : place.readers).add(reader);
    this.#readers.set(reader, place);
    if (place.next || isBehind) this.#wake(place);
  }

  /** What a reader gets that waits: a note that it does not have, or a sign of life. */
  #noteFor(reader: FeedReader): Piece {
    const note = this.#note;
    if (!note || reader.noteNumber >= note.number) return HEARTBEAT;
    reader.noteNumber = note.number;
    return note.piece;
  }

  /** Shows those who wait for a run's events where it stands in the queue, and its progress. */
  #watch({ run, live }: KnownRun): void {
    this.#leaveQueue?.();
    this.#leaveQueue = null;
    const { appNumber, id } = run;
    if (run.state === "queued")
      this.#leaveQueue = this.#parts.queueWatch.watch({ appNumber, id, live }, (place) => {
        if (place) this.#tell("queue", placeRecord(place));
        else this.#note = null;
      });
    if (!live || live === this.#watched) return;
    this.#watched = live;
    void this.#showProgress(live);
  }

  /** An event without a number, for all that wait, and for those that come before the next one. */
  #tell(name: "queue" | "progress", value: object): void {
    const text = new SseBuffer(this.#parts.sse);
    text.addEvent(name, JSON.stringify(value));
    this.#notes += 1;
    this.#note = { piece: new Piece(text.take()), number: this.#notes };
    for (const place of this.#places.values()) this.#interrupt(place);
  }

  async #showProgress(live: LiveRun): Promise<void> {
    const { signal } = this.#left;
    const progress = live.keepProgress();
    let shown: Progress | null = null;
    for (;;) {
      const { latest } = progress;
      if (signal.aborted || this.#known?.live !== live) return;
      if (latest && latest !== shown) {
        shown = latest;
        this.#leaveQueue?.();
        this.#leaveQueue = null;
        this.#tell("progress", progressRecord(latest));
        // Of those that come meanwhile the newest counts.
        await pause(this.#parts.clock, PROGRESS_MS, signal);
      } else await progress.next(signal);
    }
  }

  #wake(place: Place): void {
    this.#ready.add(place);
    this.#parts.turns.add(this.#parts.app.projectId, this);
  }

  /** No event has followed for a while. */
  #onSilence(place: Place): void {
    place.heartbeat.restart();
    this.#interrupt(place);
  }

  /** The readers there get something before they wait on. */
  #interrupt(place: Place): void {
    for (const reader of place.readers) place.idle.add(reader);
    place.readers.clear();
    if (place.idle.size > 0) this.#wake(place);
  }

  #serve(place: Place, next: Next, reader: FeedReader): void {
    place.readers.delete(reader);
    if (next.kind === "chunks") {
      const { piece, to } = (place.sent ??= this.#textOf(place.after, next.chunks));
      reader.after = to;
      if (reader.send(piece)) this.join(reader);
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
    place.heartbeat.cancel();
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

  /** Adds the number of the last chunk, read once. */
  async #end(known: FedRun): Promise<FedEnd> {
    this.#ended ??= known.transcript.last().then((last) => ({ ...known, last }));
    try {
      return await this.#ended;
    } catch (error) {
      this.#ended = null;
      throw error;
    }
  }

  /** Finds where the run has moved; one lookup for all places. */
  async #look(known: FedRun): Promise<void> {
    if (this.#known !== known) return;
    this.#looking ??= this.#moveOn(known).finally(() => (this.#looking = null));
    await this.#looking;
  }

  async #moveOn(known: FedRun): Promise<void> {
    const next = await this.#parts.lookup.findLater(known, this.#left.signal);
    // A run that was read here is read here to its end, whether or not it is stored.
    const isSeen = known.live !== null && next !== null && isEndOf(known.run, next.run);
    const { transcript } = isSeen ? known : (next ?? known);
    this.#known = next && { ...next, payload: null, transcript, isSeen };
    // A place in the queue is over with the queue, and progress with the attempt.
    if (next?.live !== this.#watched) this.#note = null;
    if (next) this.#watch(next);
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

/** Whether the run ended with this attempt; another attempt has its own transcript. */
function isEndOf({ attempt, interruptions }: Run, ended: Run): boolean {
  return isFinal(ended.state) && ended.attempt === attempt && ended.interruptions === interruptions;
}

/** Reports that chunks are not stored: before `firstEvent`, or if it is null after `lastEvent`. */
function addTruncated(text: SseBuffer, firstEvent: number | null, lastEvent: number | null): void {
  const gap = firstEvent === null ? { firstEvent, lastEvent } : { firstEvent };
  text.addEvent("truncated", JSON.stringify(gap));
}
