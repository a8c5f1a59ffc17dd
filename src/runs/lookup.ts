import { isFinal, type Payload, type PayloadBlob, type Run, type RunKey, withoutEnd } from "../model/run.ts";
import type { RunDetails } from "../model/run.ts";
import type { AppConfig } from "../model/app-config.ts";
import type { Store } from "../store/store.ts";
import { inputOf, isKept, payloadOf, plainValue } from "./ended-run.ts";
import type { Executor } from "./execute.ts";
import type { Journal } from "./journal.ts";
import type { LargePayloads } from "./large-payloads.ts";
import type { LiveRun } from "./live-run.ts";
import type { PartReader } from "./transcript-parts.ts";
import { STREAM_TYPE, plainChunk } from "./response.ts";
import type { QueueOutlook } from "./queue/outlook.ts";
import { plainTranscript, storedTranscript, type Transcript } from "./transcript.ts";

export type KnownRun = {
  readonly run: Run;
  /** Set while the run is in progress here. */
  readonly live: LiveRun | null;
  readonly payload: Payload | null;
  readonly transcript: Transcript;
  /** False for an ended run whose answer is not stored. */
  readonly isKept: boolean;
};

/** Reserves memory for so many bytes; throws if there is none. */
type MakeRoom = (bytes: number) => void;

const NO_CHUNKS = plainTranscript(null);
const NO_DETAILS: RunDetails = { failed: [], progress: null, checkpoint: null, schedule: null, place: null };

/** Interval at which a run is polled that is not in progress here; it grows while the run stays queued. */
const POLL_MS = 100;
const POLL_GROWTH = 1.1;
const MAX_POLL_MS = 1_000;

export type LookupParts = {
  readonly executor: Executor;
  readonly journal: Journal;
  readonly store: Store;
  readonly partReader: PartReader;
  readonly outlook: Pick<QueueOutlook, "of">;
  /** Null if all payloads are in the database. */
  readonly large: LargePayloads | null;
};

/** Finds runs in progress, runs that have just ended, and stored runs. */
export class RunLookup {
  readonly #parts: LookupParts;

  constructor(parts: LookupParts) {
    this.#parts = parts;
  }

  isLive(id: string): boolean {
    return this.#parts.executor.find(id) !== undefined;
  }

  /** The app of a run that is in progress here; otherwise null. */
  liveAppOf(id: string): number | null {
    return this.#parts.executor.find(id)?.request.target.appNumber ?? null;
  }

  /** The configuration with which a run in progress here was started. */
  configOf(id: string): AppConfig | null {
    return this.#parts.executor.find(id)?.request.target.config ?? null;
  }

  /** Whether the run is in progress here; one that has ended here is stored when it resolves. */
  async holds({ appNumber, id }: RunKey): Promise<boolean> {
    if (this.#parts.executor.find(id)?.request.target.appNumber === appNumber) return true;
    if (this.#parts.journal.find(appNumber, id)) await this.#parts.journal.settle();
    return false;
  }

  /** Null without such a run, or if `maySee` is false. `makeRoom` precedes reading a result; null if none is wanted. */
  async find(
    key: RunKey,
    makeRoom: MakeRoom | null = () => {},
    maySee: (run: Run) => boolean = () => true,
  ): Promise<KnownRun | null> {
    const { store, partReader } = this.#parts;
    // No await between this and the store, so that a run on its way there is not missed.
    const known = this.#unstored(key);
    if (known) {
      if (!maySee(known.run)) return null;
      if (!known.live) makeRoom?.(known.payload?.result?.length ?? 0);
      return known;
    }
    const run = await store.runs.find(key);
    if (!run || !maySee(run)) return null;
    const stored = await store.payloads.find(key);
    makeRoom?.(stored?.resultBlob?.bytes ?? stored?.result?.length ?? 0);
    const blob = makeRoom && stored?.resultBlob;
    // A result whose blob is gone or damaged is no longer kept.
    const payload = stored && blob ? { ...stored, result: await this.#read(blob) } : stored;
    return { ...fromRecord(run, payload, () => storedTranscript(partReader, key)), live: null };
  }

  /** A run's record, and what is known beside it; null without such a run. */
  async record(key: RunKey): Promise<{ readonly run: Run; readonly details: RunDetails } | null> {
    const known = this.#unstored(key);
    const run = known?.run ?? (await this.#parts.store.runs.find(key));
    return run && { run, details: await this.details({ run, live: known?.live ?? null }) };
  }

  /** What is known of a run beside its record. */
  async details({ run, live }: Pick<KnownRun, "run" | "live">): Promise<RunDetails> {
    const { store, outlook } = this.#parts;
    const ofLive = { progress: live?.progress?.latest ?? null, checkpoint: live?.checkpoint ?? null };
    if (!run.isAsync) return { ...NO_DETAILS, ...ofLive, place: await outlook.of(run, live) };
    const [failed, stored, schedule, place] = await Promise.all([
      run.attempt > 1 ? store.claims.attempts(run) : [],
      store.checkpoints.find(run),
      store.schedules.ofRun(run),
      outlook.of(run, live),
    ]);
    const progress = ofLive.progress ?? stored.progress;
    return { failed, progress, checkpoint: ofLive.checkpoint ?? stored.checkpoint, schedule, place };
  }

  /** A run in progress here, or one that has just ended here. */
  #unstored({ appNumber, id }: RunKey): KnownRun | null {
    const { executor, journal } = this.#parts;
    const live = executor.find(id);
    if (live?.request.target.appNumber === appNumber) return fromLive(live);
    const entry = journal.find(appNumber, id);
    if (!entry) return null;
    const { run, payload, transcript } = entry;
    return { ...fromRecord(run, payload, () => transcript ?? NO_CHUNKS), live: null };
  }

  /** A run's arguments; null if they are not kept. Read separately, because they may be large and are rarely wanted. */
  async input({ payload }: KnownRun, makeRoom: MakeRoom): Promise<Uint8Array | null> {
    makeRoom(payload?.inputBlob?.bytes ?? payload?.input?.length ?? 0);
    return payload?.inputBlob ? await this.#read(payload.inputBlob) : (payload?.input ?? null);
  }

  async #read(blob: PayloadBlob): Promise<Buffer | null> {
    return (await this.#parts.large?.read(blob)) ?? null;
  }

  /** Looks the run up again when it may have changed, or when the signal aborts. */
  async findLater(
    { run, live }: KnownRun,
    signal: AbortSignal,
    makeRoom?: MakeRoom,
  ): Promise<KnownRun | null> {
    await (live ? live.settled(signal) : this.#moved(run, signal));
    return await this.find(run, makeRoom);
  }

  /** Resolves when a run that is not in progress here may have changed, or when the signal aborts. */
  async #moved(run: Run, signal: AbortSignal): Promise<void> {
    for (let gapMs = POLL_MS; !signal.aborted; gapMs = Math.min(gapMs * POLL_GROWTH, MAX_POLL_MS)) {
      const gap = AbortSignal.timeout(Math.round(gapMs));
      await this.#parts.executor.begun(run.id, AbortSignal.any([signal, gap]));
      // Another node may execute it and have stored more of its transcript.
      if (run.state !== "queued" || this.isLive(run.id)) return;
      if ((await this.#parts.store.runs.find(run))?.state !== run.state) return;
    }
  }

  /** The run once it has ended, or its current state when the signal aborts. */
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
  const record = live.record();
  if (end && !claim) return { ...fromRecord(record, payloadOf(live, end), () => transcript), live: null };
  // An end that is not stored yet may still be rejected.
  const run = end ? withoutEnd(record) : record;
  const { isBare } = request;
  const payload = { input: inputOf(live), result: null, contentType: null, isBare, sealedSecret: null };
  return { run, payload, live, transcript, isKept: true };
}

/** `chunks`: the transcript of a stream, or of a run that may yet become one. */
function fromRecord(run: Run, payload: Payload | null, chunks: () => Transcript): Omit<KnownRun, "live"> {
  if (!isFinal(run.state)) return { run, payload, transcript: chunks(), isKept: true };
  if (payload?.contentType === STREAM_TYPE) return { run, payload, transcript: chunks(), isKept: true };
  const value = plainValue(run, payload);
  const transcript = plainTranscript(value && plainChunk(value));
  return { run, payload, transcript, isKept: isKept(run, payload) };
}
