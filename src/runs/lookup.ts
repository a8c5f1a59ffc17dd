import type { Payload, PayloadBlob } from "../model/payload.ts";
import type { AppConfig } from "../model/app-config.ts";
import { isFinal, withoutEnd } from "../model/run.ts";
import type { Run, RunKey } from "../model/run.ts";
import type { Store } from "../store/store.ts";
import { inputOf, isKept, payloadOf, plainValue } from "./ended-run.ts";
import type { Executor } from "./execute.ts";
import type { Journal } from "./journal.ts";
import type { LargePayloads } from "./large-payloads.ts";
import type { LiveRun } from "./live-run.ts";
import type { PartReader } from "./transcript-parts.ts";
import { STREAM_TYPE, plainChunk } from "./response.ts";
import { PlainTranscript, StoredTranscript } from "./transcript.ts";
import type { Transcript } from "./transcript.ts";

/** A run as it stood when it was looked for. */
export type KnownRun = {
  readonly run: Run;
  /** While it is under way here. */
  readonly live: LiveRun | null;
  readonly payload: Payload | null;
  readonly transcript: Transcript;
  /** False for an ended run whose answer is not there any more, or never was. */
  readonly isKept: boolean;
};

/** Makes room for so many bytes; throws if there is none. */
type MakeRoom = (bytes: number) => void;

const NO_CHUNKS = new PlainTranscript(null);

/** How soon a run that is not under way here is looked at again; one that stays queued is looked at ever more rarely. */
const POLL_MS = 100;
const POLL_GROWTH = 1.1;
const MAX_POLL_MS = 1_000;

export type LookupParts = {
  readonly executor: Executor;
  readonly journal: Journal;
  readonly store: Store;
  readonly partReader: PartReader;
  /** Null where every payload lies in the database. */
  readonly large: LargePayloads | null;
};

/** Finds runs wherever they are: under way, just ended, or stored. */
export class RunLookup {
  readonly #executor: Executor;
  readonly #journal: Journal;
  readonly #store: Store;
  readonly #partReader: PartReader;
  readonly #large: LargePayloads | null;

  constructor({ executor, journal, store, partReader, large }: LookupParts) {
    this.#executor = executor;
    this.#journal = journal;
    this.#store = store;
    this.#partReader = partReader;
    this.#large = large;
  }

  /** Whether the run is under way here. */
  isLive(id: string): boolean {
    return this.#executor.find(id) !== undefined;
  }

  /** The configuration that a run under way here began with. */
  configOf(id: string): AppConfig | null {
    return this.#executor.find(id)?.request.target.config ?? null;
  }

  /** Whether the run is under way here. One that has ended here is in the store when it resolves. */
  async holds({ appNumber, id }: RunKey): Promise<boolean> {
    if (this.#executor.find(id)?.request.target.appNumber === appNumber) return true;
    if (this.#journal.find(appNumber, id)) await this.#journal.settle();
    return false;
  }

  /**
   * Null if there is no such run, or if `maySee` says that the caller may not know of it: nothing more is read of it then.
   * `makeRoom` is asked before a result is read, or copied; what it throws ends the search. Null: nobody wants the result.
   */
  async find(
    key: RunKey,
    makeRoom: MakeRoom | null = () => {},
    maySee: (run: Run) => boolean = () => true,
  ): Promise<KnownRun | null> {
    const live = this.#executor.find(key.id);
    if (live && live.request.target.appNumber === key.appNumber) {
      const known = fromLive(live);
      return maySee(known.run) ? known : null;
    }
    // Nothing is waited for between these two and the store, so that a run on its way there is not missed.
    const entry = this.#journal.find(key.appNumber, key.id);
    if (entry) {
      const { run, payload, transcript } = entry;
      if (!maySee(run)) return null;
      makeRoom?.(payload?.result?.length ?? 0);
      return { ...fromRecord(run, payload, () => transcript ?? NO_CHUNKS), live: null };
    }
    const run = await this.#store.runs.find(key);
    if (!run || !maySee(run)) return null;
    const stored = await this.#store.payloads.find(key);
    makeRoom?.(stored?.resultBlob?.bytes ?? stored?.result?.length ?? 0);
    const blob = makeRoom && stored?.resultBlob;
    const payload = stored && blob ? await this.#withResult(stored, blob) : stored;
    return { ...fromRecord(run, payload, () => new StoredTranscript(this.#partReader, key)), live: null };
  }

  /** A run's arguments; null where they are not kept. They may be large, and few ask for them. */
  async input({ payload }: KnownRun, makeRoom: MakeRoom): Promise<Uint8Array | null> {
    makeRoom(payload?.inputBlob?.bytes ?? payload?.input?.length ?? 0);
    if (payload?.inputBlob) return (await this.#large?.read(payload.inputBlob)) ?? null;
    return payload?.input ?? null;
  }

  /** One that is gone, or damaged, is not kept any more. */
  async #withResult(payload: Payload, blob: PayloadBlob): Promise<Payload> {
    return { ...payload, result: (await this.#large?.read(blob)) ?? null };
  }

  /** Looks again when an unfinished run may have moved on, or the signal says that nobody waits. */
  async findLater(
    { run, live }: KnownRun,
    signal: AbortSignal,
    makeRoom?: MakeRoom,
  ): Promise<KnownRun | null> {
    await (live ? live.settled(signal) : this.#moved(run, signal));
    return await this.find(run, makeRoom);
  }

  /** Resolves when a run may have moved on that is not under way here, or the signal says that nobody waits. */
  async #moved(run: Run, signal: AbortSignal): Promise<void> {
    for (let gapMs = POLL_MS; !signal.aborted; gapMs = Math.min(gapMs * POLL_GROWTH, MAX_POLL_MS)) {
      await this.#begun(run.id, gapMs, signal);
      // Another node may have it, and have stored more of its transcript.
      if (run.state !== "queued" || this.isLive(run.id)) return;
      if ((await this.#store.runs.find(run))?.state !== run.state) return;
    }
  }

  /** Resolves when the run is under way here, or after some time. */
  async #begun(id: string, atMostMs: number, signal: AbortSignal): Promise<void> {
    const patience = new AbortController();
    const giveUp = (): void => patience.abort();
    const timer = setTimeout(giveUp, atMostMs).unref();
    signal.addEventListener("abort", giveUp);
    await this.#executor.begun(id, patience.signal);
    clearTimeout(timer);
    signal.removeEventListener("abort", giveUp);
  }

  /** That run when it has ended, or as it stands when the signal says that nobody waits any more. */
  async findEnded(first: KnownRun, signal: AbortSignal, makeRoom: MakeRoom): Promise<KnownRun | null> {
    let known: KnownRun | null = first;
    while (known && !isFinal(known.run.state) && !signal.aborted)
      known = await this.findLater(known, signal, makeRoom);
    return known;
  }
}

function fromLive(live: LiveRun): KnownRun {
  const { request, claim, end } = live;
  const transcript = live.transcript();
  const run = live.record();
  if (end && !claim) return { ...fromRecord(run, payloadOf(live, end), () => transcript), live: null };
  return {
    // An end of which the store does not know yet may still not count.
    run: end ? withoutEnd(run) : run,
    payload: {
      input: inputOf(live),
      result: null,
      contentType: null,
      isBare: request.isBare,
      sealedSecret: null,
    },
    live,
    transcript,
    isKept: true,
  };
}

/** `chunks` gives the transcript of a stream, or of a run that may yet become one. */
function fromRecord(run: Run, payload: Payload | null, chunks: () => Transcript): Omit<KnownRun, "live"> {
  if (!isFinal(run.state)) return { run, payload, transcript: chunks(), isKept: true };
  if (payload?.contentType === STREAM_TYPE) return { run, payload, transcript: chunks(), isKept: true };
  const value = plainValue(run, payload);
  const transcript = new PlainTranscript(value && plainChunk(value));
  return { run, payload, transcript, isKept: isKept(run, payload) };
}
