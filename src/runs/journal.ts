import type { Clock } from "../kit/clock.ts";
import type { DiskReserve } from "../kit/disk-reserve.ts";
import type { Log } from "../kit/log.ts";
import { WriteBehind } from "../kit/write-behind.ts";
import { discardEnded, findEnded, packEnded } from "../store/runs/ended-runs.ts";
import type { EndedBatch, EndedRun } from "../store/runs/ended-runs.ts";
import type { Store } from "../store/store.ts";
import type { Transcript } from "./transcript.ts";
import { payloadOf } from "./ended-run.ts";
import type { LiveRun, RunEnd, RunRecorder } from "./live-run.ts";
import type { RunTally } from "./run-tally.ts";

/** What is stored of an ended run; readers that come earlier get a stream's transcript from memory. */
export type JournalEntry = EndedRun & { readonly transcript: Transcript | null };

/** A run that waits to be stored. */
type Waiting = Pick<JournalEntry, "run" | "payload" | "transcript">;

/** Packed, because objects would reach the old generation, 3.5 MB each time; p99 fell from 7.0 to 5.8 ms. */
type Block = {
  readonly ended: EndedBatch;
  readonly payloadBytes: number;
  readonly transcripts: readonly { readonly id: string; readonly transcript: Transcript }[];
};

/** Measured at 32 connections against 240: 60 gave 0.97 times the calls; 1,000 gave 1.03, but a p99 of 5.4, not 5.0 ms. */
const BLOCK_ROWS = 250;
/** A commit of any size costs callers 0.7 ms on two cores. At 32 connections, 1.03 to 1.07 times the calls of 50 ms. */
const FLUSH_MS = 80;
/** Written early when this many wait, the most that one write may have. */
const FLUSH_ROWS = 4_000;
/** Payload bytes are copied on this thread, about a millisecond per megabyte. */
const BATCH_BYTES = 1024 * 1024;
/** A stored block of this size is freed explicitly, because the garbage collector underestimates it. */
const LARGE_BYTES = 64 * 1024;
/** Records that may wait while the database is away, about 25 MB. */
const MAX_WAITING = 100_000;
/** Payloads among them; beyond this only the records are kept. */
const MAX_PAYLOAD_BYTES = 64 * 1024 * 1024;
const RETRY_MS = 1_000;

/** Stores the records of ended runs in the background, in batches. */
export class Journal {
  /** Records that will never be stored. */
  lost = 0;
  /** Records that are not stored yet. */
  waiting = 0;
  readonly #store: Store;
  readonly #log: Log;
  readonly #reserve: Pick<DiskReserve, "isLow">;
  /** The latest entries, not packed yet. */
  #fresh: JournalEntry[] = [];
  #freshBytes = 0;
  /** Earlier entries, oldest first. */
  #blocks: Block[] = [];
  #payloadBytes = 0;
  readonly #behind: WriteBehind;
  #dropped = 0;

  constructor(store: Store, log: Log, clock: Clock, reserve: Pick<DiskReserve, "isLow"> = { isLow: false }) {
    this.#reserve = reserve;
    this.#store = store;
    this.#log = log;
    this.#behind = new WriteBehind({
      clock,
      delayMs: FLUSH_MS,
      retryMs: RETRY_MS,
      hasWaiting: () => this.waiting > 0,
      write: () => this.#write(),
      onFailure: (err) => log.error({ err, waiting: this.waiting }, "could not store run records; retrying"),
    });
  }

  /** When the disk is nearly full, only the record is kept. */
  add(ended: JournalEntry): void {
    const entry = this.#reserve.isLow ? { ...ended, payload: null, part: null } : ended;
    if (this.waiting >= MAX_WAITING) {
      this.lost += 1;
      this.#dropped += 1;
      return;
    }
    const bytes = payloadBytes(entry);
    const isKept = this.#payloadBytes + bytes <= MAX_PAYLOAD_BYTES;
    if (isKept) {
      this.#payloadBytes += bytes;
      this.#freshBytes += bytes;
    }
    this.waiting += 1;
    this.#fresh.push(isKept ? entry : { ...entry, payload: null });
    if (this.#fresh.length === BLOCK_ROWS || this.#freshBytes >= BATCH_BYTES) this.#pack();
    if (this.waiting >= FLUSH_ROWS && this.#behind.isFree) this.#behind.begin();
    else this.#behind.note();
  }

  /** The run, while it waits to be stored. */
  find(appNumber: number, id: string): Waiting | null {
    const fresh = this.#fresh.find(({ run }) => run.id === id && run.appNumber === appNumber);
    if (fresh) return fresh;
    for (const { ended, transcripts } of this.#blocks) {
      const found = findEnded(ended, { appNumber, id });
      if (!found) continue;
      const transcript = transcripts.find((stream) => stream.id === id)?.transcript ?? null;
      return { ...found, transcript };
    }
    return null;
  }

  /** Resolves when all is stored; after `patienceMs` of failures, what is left is lost. */
  async settle(patienceMs = Number.POSITIVE_INFINITY): Promise<void> {
    await this.#behind.settle(patienceMs, () => {
      this.#log.error({ lost: this.waiting }, "could not store run records; they are lost");
      this.lost += this.waiting;
      this.waiting = 0;
      this.#payloadBytes = 0;
      this.#freshBytes = 0;
      this.#fresh = [];
      this.#blocks = [];
    });
  }

  #pack(): void {
    if (this.#fresh.length === 0) return;
    this.#blocks.push({
      ended: packEnded(this.#fresh),
      payloadBytes: this.#freshBytes,
      transcripts: this.#fresh.flatMap(({ run: { id }, transcript }) =>
        transcript ? { id, transcript } : [],
      ),
    });
    this.#fresh = [];
    this.#freshBytes = 0;
  }

  /** The oldest blocks that fit into one write; at least one. */
  #next(): Block[] {
    let rows = 0;
    let bytes = 0;
    const end = this.#blocks.findIndex(({ ended, ...block }, i) => {
      rows += ended.runs.rowCount;
      bytes += block.payloadBytes;
      return i > 0 && (rows > FLUSH_ROWS || bytes > BATCH_BYTES);
    });
    return end === -1 ? this.#blocks : this.#blocks.slice(0, end);
  }

  async #write(): Promise<void> {
    this.#pack();
    for (let left = this.#blocks.length; left > 0;) {
      const blocks = this.#next().slice(0, left);
      await this.#store.runs.insertFinished(blocks.map(({ ended }) => ended));
      left -= blocks.length;
      this.#blocks = this.#blocks.slice(blocks.length);
      for (const { ended, payloadBytes: bytes } of blocks) {
        this.waiting -= ended.runs.rowCount;
        this.#payloadBytes -= bytes;
        if (bytes >= LARGE_BYTES) discardEnded(ended);
      }
      if (this.#dropped > 0) this.#log.error({ dropped: this.#dropped }, "dropped run records");
      this.#dropped = 0;
    }
  }
}

function payloadBytes({ payload }: JournalEntry): number {
  return payload ? (payload.input?.length ?? 0) + (payload.result?.length ?? 0) : 0;
}

/** Records runs that were not stored before they ended, through the journal. */
export class LightRecorder implements RunRecorder {
  readonly #journal: Journal;
  readonly #tally: RunTally;
  /** Runs that ended in this tick: all callers are answered before the first record is made. */
  #ended: { readonly run: LiveRun; readonly end: RunEnd }[] = [];
  /** Runs whose chunks are still being stored. */
  readonly #storing = new Set<Promise<void>>();

  constructor(journal: Journal, tally: RunTally) {
    this.#journal = journal;
    this.#tally = tally;
  }

  record(run: LiveRun, end: RunEnd): void {
    if (this.#ended.push({ run, end }) === 1) setImmediate(() => this.#recordEnded());
  }

  /** Resolves when all recorded runs have reached the journal. */
  async settle(): Promise<void> {
    this.#recordEnded();
    await Promise.all(this.#storing);
  }

  #recordEnded(): void {
    const ended = this.#ended;
    this.#ended = [];
    for (const { run, end } of ended) this.#record(run, end);
  }

  #record(run: LiveRun, end: RunEnd): void {
    // A stored run must have all its chunks.
    if (!run.isStream || run.transcript().isSettled) {
      this.#add(run, end);
      return;
    }
    const settling = run.transcript().settle();
    const recorded = settling.then(() => this.#add(run, end)).finally(() => this.#storing.delete(recorded));
    this.#storing.add(recorded);
  }

  #add(run: LiveRun, end: RunEnd): void {
    const { lastPart: part } = run;
    const transcript = run.isStream ? run.transcript() : null;
    const record = run.record();
    this.#tally.add(record, end.timing);
    this.#journal.add({ run: record, payload: payloadOf(run, end), part, transcript });
    run.settle();
  }
}
