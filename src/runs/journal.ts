import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../kit/log.ts";
import { RunTally } from "../model/run-tally.ts";
import type { EndedRun } from "../store/runs.ts";
import type { Store } from "../store/store.ts";
import type { Transcript } from "./transcript.ts";

/**
 * What is to be stored of a run that has ended, and a stream's transcript for who asks until then. Not the run
 * itself: it holds the caller's request and answer, and keeping those for even 50 ms doubled the cost of a call.
 */
export type JournalEntry = EndedRun & { readonly transcript: Transcript | null };

/** A record is on its way to the disk at most this long after its run has ended. */
const FLUSH_MS = 50;
/**
 * Or when so many wait. A commit costs 0.7 ms whatever is in it, so few large ones: side by side at 32 connections
 * 800 rows gave 1.10 to 1.27 times the calls of 200, with a p99 of 6.4 to 7.7 ms against 5.3 to 8.1.
 */
const FLUSH_ROWS = 1_000;
const BATCH = 2_000;
/** A write's arguments and results are copied once on this thread: a megabyte takes about a millisecond. */
const BATCH_BYTES = 1024 * 1024;
/** What may pile up while the database is away: about 100 MB. */
const MAX_WAITING = 100_000;
/** Of arguments and results among it: past this only the records are kept. */
const MAX_PAYLOAD_BYTES = 64 * 1024 * 1024;
const RETRY_MS = 1_000;

/** Writes records of ended runs behind, in batches: no caller ever waits for one. */
export class Journal {
  /** Every run that came here. */
  readonly ended = new RunTally();
  /** Records that will never be stored. */
  lost = 0;
  readonly #store: Store;
  readonly #log: Log;
  readonly #onDeliveries: () => void;
  #waiting: JournalEntry[] = [];
  #payloadBytes = 0;
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> | null = null;
  #dropped = 0;
  /** The latest write did. */
  #hasFailed = false;

  /** `onDeliveries` is called when runs with deliveries have been stored. */
  constructor(store: Store, log: Log, onDeliveries: () => void) {
    this.#store = store;
    this.#log = log;
    this.#onDeliveries = onDeliveries;
  }

  add(entry: JournalEntry): void {
    this.ended.add(entry.run.appNumber, entry.run.state);
    if (this.#waiting.length >= MAX_WAITING) {
      this.lost += 1;
      this.#dropped += 1;
      return;
    }
    const bytes = payloadBytes(entry);
    const isKept = this.#payloadBytes + bytes <= MAX_PAYLOAD_BYTES;
    if (isKept) this.#payloadBytes += bytes;
    this.#waiting.push(isKept ? entry : { ...entry, payload: null });
    if (this.#waiting.length >= FLUSH_ROWS && !this.#writing && !this.#hasFailed) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), FLUSH_MS);
  }

  /** How many records are not stored yet. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** That run of the app, while it waits to be stored. */
  find(appNumber: number, id: string): JournalEntry | undefined {
    return this.#waiting.find(({ run }) => run.id === id && run.appNumber === appNumber);
  }

  /** Resolves when everything added so far is stored; after `patienceMs` of failing, with what is left lost. */
  async settle(patienceMs = Number.POSITIVE_INFINITY): Promise<void> {
    const deadline = performance.now() + patienceMs;
    while (this.#waiting.length > 0 || this.#writing) {
      this.#flush();
      await this.#writing;
      if (!this.#hasFailed) continue;
      if (performance.now() > deadline) {
        this.#log.error({ lost: this.#waiting.length }, "run records could not be stored and are lost");
        this.lost += this.#waiting.length;
        this.#waiting = [];
      } else {
        await sleep(RETRY_MS / 10);
      }
    }
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #flush(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#writing ??= this.#write(this.#waiting.length).finally(() => {
      this.#writing = null;
      const delayMs = this.#hasFailed ? RETRY_MS : FLUSH_MS;
      if (this.#waiting.length > 0) this.#timer ??= setTimeout(() => this.#flush(), delayMs);
    });
  }

  /** The oldest entries, so many or as many as fit. */
  #next(count: number): JournalEntry[] {
    let bytes = 0;
    const end = this.#waiting.findIndex(
      (entry, i) => i === count || (i > 0 && (bytes += payloadBytes(entry)) > BATCH_BYTES),
    );
    return this.#waiting.slice(0, end === -1 ? count : end);
  }

  async #write(count: number): Promise<void> {
    for (let left = count; left > 0;) {
      const batch = this.#next(Math.min(left, BATCH));
      try {
        await this.#store.runs.insertFinished(batch);
      } catch (error) {
        const waiting = this.#waiting.length;
        this.#log.error({ err: error, waiting }, "run records could not be stored; trying again");
        this.#hasFailed = true;
        return;
      }
      this.#hasFailed = false;
      left -= batch.length;
      this.#waiting = this.#waiting.slice(batch.length);
      for (const entry of batch) this.#payloadBytes -= payloadBytes(entry);
      if (batch.some(({ delivery }) => delivery !== null)) this.#onDeliveries();
      if (this.#dropped > 0) this.#log.error({ dropped: this.#dropped }, "run records were dropped");
      this.#dropped = 0;
    }
  }
}

function payloadBytes({ payload }: JournalEntry): number {
  return payload ? (payload.input?.length ?? 0) + (payload.result?.length ?? 0) : 0;
}
