import type { Clock } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { AppError } from "../model/errors.ts";
import { NOT_BEGUN, makeRun } from "../model/run.ts";
import type { Payload } from "../model/payload.ts";
import type { Run } from "../model/run.ts";
import type { Chunk } from "../replicas/call.ts";
import type { AcceptedRun } from "../store/runs/accepted-runs.ts";
import type { StorageWatch } from "../store/upkeep/storage-watch.ts";
import type { Store } from "../store/store.ts";
import { Acceptor, InDoubt, InputTurns } from "./acceptor.ts";
import type { ClaimRecorder } from "./claim-recorder.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { Executor } from "./execute.ts";
import type { LargePayloads } from "./large-payloads.ts";
import type { Claim, LiveRun, RunEnd, RunReader, RunRecorder, RunRequest } from "./live-run.ts";

export type SubmitterParts = {
  readonly store: Store;
  readonly executor: Executor;
  readonly dispatcher: Dispatcher;
  readonly recorder: ClaimRecorder;
  readonly lightRecorder: RunRecorder;
  readonly clock: Clock;
  /** What the age of a key goes by: nobody can set it. */
  readonly steadyClock: Clock;
  readonly owner: string;
  readonly reserve: Pick<StorageWatch, "refusal">;
  /** Null where every payload lies in the database. */
  readonly large: LargePayloads | null;
  readonly log: Log;
};

/** What a caller's `Idempotency-Key` stands for. */
export type RunKeyMark = { readonly keyHash: Uint8Array; readonly fingerprint: Uint8Array };

/** What became of a call with a key. */
export type Keyed =
  | { readonly kind: "accepted" }
  /** The key stands for that run already. */
  | { readonly kind: "same"; readonly runId: string }
  /** The key stands for another call. */
  | { readonly kind: "different" };

const KEY_KEPT_MS = 24 * 3600 * 1000;
const NO_ROOM = "The results of earlier runs of this app could not be stored yet; try again shortly.";

/** Where a run becomes a promise: it is in the store, durably, before anybody is told so. */
export class Submitter {
  readonly #parts: SubmitterParts;
  readonly #acceptor: Acceptor;
  readonly #turns: InputTurns;

  constructor(parts: SubmitterParts) {
    this.#parts = parts;
    this.#turns = new InputTurns(parts.clock);
    this.#acceptor = new Acceptor(parts);
  }

  /** Accepts a run that nobody waits for; rejects if it could not be stored. */
  async submit(request: RunRequest): Promise<void> {
    this.#checkReserve();
    const input = inputOf(request);
    await this.#inTurn(request, input, async () => {
      await this.#submit(request, this.#isLarge(input) ? await this.#stored(input) : input);
    });
  }

  /** Accepts a run that nobody waits for, unless its key stands for one already. */
  async submitKeyed(request: RunRequest, key: RunKeyMark): Promise<Keyed> {
    const { appNumber } = request.target;
    this.#checkReserve();
    const input = inputOf(request);
    return await this.#inTurn(request, input, async () => {
      const payload = this.#isLarge(input) ? await this.#stored(input) : input;
      const run = acceptedRecord(request, true, false, this.#parts.clock.now());
      return await this.#arriving(appNumber, this.#acceptKeyed({ run, payload, owner: null }, key));
    });
  }

  /** Executes a run for its caller, unless its key stands for one already; it is in the store before it starts. */
  async executeKeyed(
    request: RunRequest,
    key: RunKeyMark,
    reader: RunReader,
  ): Promise<Keyed & { readonly live?: LiveRun }> {
    const { owner, executor } = this.#parts;
    this.#checkRoom(request);
    const claim = this.#claim(false, key.keyHash);
    const run = acceptedRecord(request, false, true, claim.createdAt);
    const accepted = { run, payload: withoutInput(request), owner };
    const accepting = this.#asOurs(request.id, this.#acceptKeyed(accepted, key));
    const keyed = await this.#orEnd(accepting, () => this.#interrupt(request, claim));
    if (keyed.kind !== "accepted") {
      executor.unexpect(request.id);
      return keyed;
    }
    return { ...keyed, live: this.#begin(request, claim, reader) };
  }

  /** Executes a run for its caller that is asked for, or forwarded, later: it is in the store before it starts. */
  async executeKept(request: RunRequest, reader: RunReader): Promise<LiveRun> {
    this.#checkRoom(request);
    const claim = this.#claim(false);
    const run = acceptedRecord(request, false, true, claim.createdAt);
    const accepted = { run, payload: withoutInput(request), owner: this.#parts.owner };
    const accepting = this.#asOurs(request.id, this.#acceptor.accept(accepted));
    await this.#orEnd(accepting, () => this.#interrupt(request, claim));
    return this.#begin(request, claim, reader);
  }

  /** Accepts a run that somebody else executes, and keeps: `end` is told if it may not be executed and has to end. */
  async accept(accepted: AcceptedRun, end: () => void): Promise<void> {
    this.#checkReserve();
    await this.#orEnd(this.#acceptor.accept(accepted), end);
  }

  /**
   * Turns a run whose caller will wait no longer into one that nobody waits for. False if it could not be
   * stored: then everything stays as it was.
   */
  async adopt(run: LiveRun, reader: RunReader): Promise<boolean> {
    const { store, executor, recorder, lightRecorder, owner, reserve } = this.#parts;
    const { id } = run.request;
    if (reserve.refusal !== null) return false;
    const recordedBy = run.claim ? recorder : lightRecorder;
    // What comes while the store is busy waits until it is known who is to learn it.
    const held = new HeldRun();
    run.handTo(held, held);
    const claim = { ...(run.claim ?? this.#claim(false)), isAsync: true, createdAt: run.createdAt };
    try {
      const record = acceptedRecord(run.request, true, true, claim.createdAt);
      const input = inputOf(run.request);
      const payload = this.#isLarge(input) ? await this.#stored(input) : input;
      if (run.claim) await store.claims.setAsync({ ...record, fence: claim.fence, owner, payload });
      else {
        const accepting = this.#acceptor.adopt({ run: record, payload, owner });
        await this.#asOurs(id, accepting);
      }
    } catch (error) {
      const inDoubt = error instanceof InDoubt;
      held.replay(run, reader, inDoubt ? this.#whenKnown(error, claim, recordedBy) : recordedBy);
      return false;
    }
    run.claim = claim;
    executor.unexpect(id);
    held.replay(run, null, recorder);
    return true;
  }

  async #submit(request: RunRequest, payload: Payload): Promise<void> {
    const { dispatcher, owner, clock } = this.#parts;
    const { appNumber } = request.target;
    if (!dispatcher.reserve(request.target)) {
      const run = acceptedRecord(request, true, false, clock.now());
      await this.#arriving(appNumber, this.#acceptor.accept({ run, payload, owner: null }));
      return;
    }
    const claim = this.#claim(true);
    try {
      const run = acceptedRecord(request, true, true, claim.createdAt);
      await this.#asOurs(request.id, this.#acceptor.accept({ run, payload, owner }));
    } catch (error) {
      dispatcher.giveBack(appNumber);
      if (error instanceof InDoubt) void this.#putBack(error, request);
      throw error;
    }
    dispatcher.runReserved(request, claim);
  }

  async #inTurn<Result>(
    { target: { appNumber } }: RunRequest,
    payload: Payload,
    store: () => Promise<Result>,
  ): Promise<Result> {
    const bytes = payload.input?.length ?? 0;
    return await this.#turns.take({ appNumber, bytes, isBlob: this.#isLarge(payload) }, store);
  }

  /** Whether the input is to lie in a blob. What is small is never waited for. */
  #isLarge({ input }: Payload): boolean {
    return this.#parts.large?.isLarge(input) ?? false;
  }

  /** The blob is there before any row names it: a death in between leaves nothing but that. */
  async #stored(payload: Payload): Promise<Payload> {
    const { large } = this.#parts;
    return large && payload.input ? await large.withInput(payload, payload.input) : payload;
  }

  #begin(request: RunRequest, claim: Claim, reader: RunReader): LiveRun {
    const { executor, recorder } = this.#parts;
    return executor.executeClaimed(request, claim, reader, recorder);
  }

  /** If a run whose storing is in doubt turns out to be stored it has to end: its caller was told to look for it. */
  async #orEnd<Result>(accepting: Promise<Result>, end: () => void): Promise<Result> {
    return await accepting.catch((error: unknown) => {
      if (error instanceof InDoubt) void error.settled.then((isStored) => isStored && end());
      throw error;
    });
  }

  #interrupt(request: RunRequest, claim: Claim): void {
    const { executor, recorder } = this.#parts;
    executor.endClaimed(request, claim, recorder, { kind: "refused", code: "interrupted" });
  }

  /**
   * Says that a run may be in the store as ours before anything here knows it, until it is executed or ended here: it
   * would be taken for one that nobody executes.
   */
  async #asOurs<Result>(id: string, accepting: Promise<Result>): Promise<Result> {
    const { executor } = this.#parts;
    executor.expect(id);
    return await accepting.catch((error: unknown) => {
      if (!(error instanceof InDoubt)) executor.unexpect(id);
      else void error.settled.then((isStored) => isStored || executor.unexpect(id));
      throw error;
    });
  }

  /** Has the end of a run written down when it is known whether it is stored: its caller does not wait for that. */
  #whenKnown({ settled }: InDoubt, claim: Claim, otherwise: RunRecorder): RunRecorder {
    const { executor, recorder } = this.#parts;
    const record = async (run: LiveRun, end: RunEnd): Promise<void> => {
      if (!(await settled)) return otherwise.record(run, end);
      run.claim = { ...claim, isAsync: false };
      executor.unexpect(run.request.id);
      return recorder.record(run, end);
    };
    return { record: (run, end) => void record(run, end) };
  }

  /** Nothing that is accepted after it is dispatched before it. */
  async #arriving<Result>(appNumber: number, accepting: Promise<Result>): Promise<Result> {
    const { dispatcher } = this.#parts;
    dispatcher.expect(appNumber);
    return await accepting.finally(() => dispatcher.arrived(appNumber));
  }

  /** The service is about to stop: nobody waits any more until it is known whether a run was stored. */
  startDraining(): void {
    this.#acceptor.startDraining();
  }

  /** Nothing more is found out about what is in doubt. */
  stop(): void {
    this.#acceptor.stop();
  }

  /**
   * If it turns out to be stored it is ours, unless another service took it over while nobody knew: it goes back into
   * the queue, where only one gets it.
   */
  async #putBack({ settled }: InDoubt, { id, target }: RunRequest): Promise<void> {
    const { executor, dispatcher } = this.#parts;
    if (!(await settled)) return;
    executor.unexpect(id);
    dispatcher.putBack(target.appNumber);
  }

  /** The last of the disk is for the ends of runs that are accepted already; a broken database is for nothing new. */
  #checkReserve(): void {
    const message = this.#parts.reserve.refusal;
    if (message !== null) throw new AppError("storage_unavailable", { message });
  }

  /** A run that begins at once is stored at its end: others wait in the queue while there is no room for their ends. */
  #checkRoom({ target }: RunRequest): void {
    this.#checkReserve();
    if (!this.#parts.recorder.hasRoom(target.appNumber))
      throw new AppError("storage_unavailable", { message: NO_ROOM });
  }

  async #acceptKeyed(accepted: AcceptedRun, key: RunKeyMark): Promise<Keyed> {
    return await this.#acceptor.resolve(accepted, this.#storeKeyed(accepted, key), { kind: "accepted" });
  }

  async #storeKeyed(accepted: AcceptedRun, key: RunKeyMark): Promise<Keyed> {
    const { store, steadyClock } = this.#parts;
    return await this.#turns.takeKeyed(accepted.run.appNumber, async () => {
      const keyed = { accepted, ...key, now: steadyClock.now(), keptMs: KEY_KEPT_MS };
      return await store.runs.acceptKeyed(keyed);
    });
  }

  #claim(isAsync: boolean, keyHash: Uint8Array | null = null): Claim {
    const { owner, clock } = this.#parts;
    const createdAt = clock.now();
    return { owner, fence: 1, isAsync, attempt: 1, interruptions: 0, createdAt, keyHash, storedEvents: 0 };
  }
}

/** Remembers what happens to a run. Its generator waits: no chunk is granted here. */
class HeldRun implements RunReader, RunRecorder {
  #isStream = false;
  readonly #chunks: Chunk[] = [];

  onStream(): void {
    this.#isStream = true;
  }

  onChunk(chunk: Chunk): void {
    this.#chunks.push(chunk);
  }

  onEnd(): void {}

  record(): void {}

  /** Hands the run over to a reader and a recorder, with all that has happened meanwhile. */
  replay(run: LiveRun, reader: RunReader | null, recorder: RunRecorder): void {
    run.handTo(reader, recorder);
    if (reader && this.#isStream) reader.onStream();
    for (const chunk of this.#chunks) {
      if (reader) reader.onChunk(chunk);
      else run.grantUnread(chunk.wireBytes);
    }
    if (!run.end) return;
    reader?.onEnd(run.end);
    recorder.record(run, run.end);
  }
}

function inputOf({ body, isBare, webhook, http }: RunRequest): AcceptedRun["payload"] {
  return {
    input: http === undefined ? body : http.input(),
    result: null,
    contentType: null,
    isBare,
    sealedSecret: webhook?.sealedSecret ?? null,
  };
}

/** Of a run that is not executed again whatever happens: its arguments are written at its end, if they are kept. */
function withoutInput(request: RunRequest): AcceptedRun["payload"] {
  return { ...inputOf(request), input: null };
}

function acceptedRecord(request: RunRequest, isAsync: boolean, isClaimed: boolean, createdAt: number): Run {
  return makeRun(request, { ...NOT_BEGUN, isAsync, state: isClaimed ? "running" : "queued", createdAt });
}
