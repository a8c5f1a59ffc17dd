import type { Clock } from "../kit/clock.ts";
import { AppError } from "../model/errors.ts";
import { makeRun, NOT_BEGUN, type Payload, type Run } from "../model/run.ts";
import type { Chunk } from "../replicas/call.ts";
import type { AcceptedRun } from "../store/runs/accepted-runs.ts";
import type { StorageWatch } from "../store/upkeep/storage-watch.ts";
import { Acceptor, InDoubt, InputTurns } from "./acceptor.ts";
import { hasKeyLimits } from "../model/queue-limits.ts";
import type { Dispatcher, DispatcherParts } from "./dispatcher.ts";
import type { Claim, LiveRun, RunEnd, RunReader, RunRecorder, RunRequest } from "./live-run.ts";

type SubmitterParts = Pick<
  DispatcherParts,
  "store" | "executor" | "recorder" | "clock" | "owner" | "large" | "log"
> & {
  readonly dispatcher: Dispatcher;
  readonly lightRecorder: RunRecorder;
  /** Measures the age of keys; cannot be set. */
  readonly steadyClock: Clock;
  readonly reserve: Pick<StorageWatch, "refusal">;
  /** Whether the app's queue takes no more runs. */
  readonly isDraining: (appNumber: number) => boolean;
};

/** A key and the fingerprint of its call, hashed. */
export type RunKeyMark = { readonly keyHash: Uint8Array; readonly fingerprint: Uint8Array };

/** Whether the key was new, or used before for the same call or a different one. */
export type Keyed =
  | { readonly kind: "accepted" }
  | { readonly kind: "same"; readonly runId: string }
  | { readonly kind: "different" };

const KEY_KEPT_MS = 24 * 3600 * 1000;
/** Someone has to open the queue again. */
const DRAIN_RETRY_SECONDS = "60";
const NO_ROOM = "The results of earlier runs of this app could not be stored yet; try again shortly.";

/** Accepts runs: each is stored durably before its caller gets an answer. */
export class Submitter {
  readonly #parts: SubmitterParts;
  readonly #acceptor: Acceptor;
  readonly #turns: InputTurns;

  constructor(parts: SubmitterParts) {
    this.#parts = parts;
    this.#turns = new InputTurns(parts.clock);
    this.#acceptor = new Acceptor(parts);
  }

  /** Accepts an async run; rejects if it could not be stored. */
  async submit(request: RunRequest): Promise<void> {
    this.#checkReserve();
    this.checkOpen(request.target.appNumber);
    if (request.target.config.queue?.maxBacklog) await this.#checkBacklog(request);
    await this.#inTurn(request, (payload) => this.#submit(request, payload));
  }

  /** The same with a key; does nothing if the key was used before. */
  async submitKeyed(request: RunRequest, key: RunKeyMark): Promise<Keyed> {
    this.#checkReserve();
    const { appNumber, config } = request.target;
    const limit = config.queue?.maxBacklog;
    try {
      this.checkOpen(appNumber);
      if (limit) await this.#checkBacklog(request);
    } catch (error) {
      return await this.#acceptedEarlier(appNumber, key, error);
    }
    const keyed = await this.#inTurn(request, async (payload) => {
      const run = acceptedRecord(request, true, false, this.#parts.clock.now());
      const accepting = this.#acceptKeyed({ run, payload, owner: null, isParked: isParked(request) }, key);
      return await this.#arriving(run, request, accepting);
    });
    if (limit && keyed.kind !== "accepted") this.#parts.dispatcher.backlogLimit.left(appNumber, 1);
    return keyed;
  }

  /** A queue that takes no more runs still answers calls that it has accepted. */
  async #acceptedEarlier(
    appNumber: number,
    { keyHash, fingerprint }: RunKeyMark,
    refusal: unknown,
  ): Promise<Keyed> {
    const since = this.#parts.steadyClock.now() - KEY_KEPT_MS;
    const earlier = await this.#parts.store.keys.find({ appNumber, keyHash, since });
    if (!earlier) throw refusal;
    const isSame = Buffer.compare(earlier.fingerprint, fingerprint) === 0;
    return isSame ? { kind: "same", runId: earlier.runId } : { kind: "different" };
  }

  /** Stores and executes a run for its caller, unless its key was used before. */
  async executeKeyed(
    request: RunRequest,
    key: RunKeyMark,
    reader: RunReader,
  ): Promise<Keyed & { readonly live?: LiveRun }> {
    const { claim, accepted } = this.#toExecute(request, key.keyHash);
    const accepting = this.#asOurs(request.id, this.#acceptKeyed(accepted, key));
    const keyed = await this.#orEnd(accepting, () => this.#interrupt(request, claim));
    if (keyed.kind !== "accepted") {
      this.#parts.executor.unexpect(request.id);
      return keyed;
    }
    return { ...keyed, live: this.#parts.executor.executeClaimed(request, claim, reader) };
  }

  /** Stores and executes a run whose caller or webhook may ask for the result later. */
  async executeKept(request: RunRequest, reader: RunReader): Promise<LiveRun> {
    const { claim, accepted } = this.#toExecute(request, null);
    const accepting = this.#asOurs(request.id, this.#acceptor.accept(accepted));
    await this.#orEnd(accepting, () => this.#interrupt(request, claim));
    return this.#parts.executor.executeClaimed(request, claim, reader);
  }

  /** Stores a run that the caller executes. `end` is called if it was refused in doubt but turns out to be stored. */
  async accept(accepted: AcceptedRun, end: () => void): Promise<void> {
    this.#checkReserve();
    await this.#orEnd(this.#acceptor.accept(accepted), end);
  }

  /** Turns a run in progress into an async run. False if it could not be stored: then nothing has changed. */
  async adopt(run: LiveRun, reader: RunReader): Promise<boolean> {
    const { store, executor, recorder, lightRecorder, owner, reserve } = this.#parts;
    const { id } = run.request;
    if (reserve.refusal !== null) return false;
    const recordedBy = run.claim ? recorder : lightRecorder;
    // Holds events until it is known who gets them.
    const held = new HeldRun();
    run.handTo(held, held);
    const claim = { ...(run.claim ?? this.#claim(false)), isAsync: true, createdAt: run.createdAt };
    try {
      const record = acceptedRecord(run.request, true, true, claim.createdAt);
      const payload = await this.#stored(inputOf(run.request));
      if (run.claim) await store.claims.setAsync({ ...record, fence: claim.fence, owner, payload });
      else await this.#asOurs(id, this.#acceptor.adopt({ run: record, payload, owner }));
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
    const { target, terms } = request;
    const { appNumber } = target;
    const isHeld = isParked(request);
    const mayBegin = !terms || (terms.notBefore === null && !isHeld);
    if (!mayBegin || !dispatcher.reserve(target)) {
      const run = acceptedRecord(request, true, false, clock.now());
      const accepting = this.#acceptor.accept({ run, payload, owner: null, isParked: isHeld });
      await this.#arriving(run, request, accepting);
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

  /** Stores a request's input in its app's turn. */
  async #inTurn<Result>(request: RunRequest, store: (payload: Payload) => Promise<Result>): Promise<Result> {
    const payload = inputOf(request);
    const bytes = payload.input?.length ?? 0;
    const isBlob = this.#parts.large?.isLarge(payload.input) ?? false;
    const { appNumber } = request.target;
    return await this.#turns.take({ appNumber, bytes, isBlob }, async () =>
      store(isBlob ? await this.#stored(payload) : payload),
    );
  }

  /** Stores a large input's blob before the row that names it, so that a crash leaves only an unused blob. */
  async #stored(payload: Payload): Promise<Payload> {
    const { large } = this.#parts;
    if (!large?.isLarge(payload.input)) return payload;
    return { ...payload, input: null, inputBlob: await large.put(payload.input) };
  }

  /** The record and claim of a run that starts as soon as it is stored. */
  #toExecute(request: RunRequest, keyHash: Uint8Array | null) {
    this.#checkReserve();
    // It would start at once, and its end needs room too.
    if (!this.#parts.recorder.hasRoom(request.target.appNumber))
      throw new AppError("storage_unavailable", { message: NO_ROOM });
    const claim = this.#claim(false, keyHash);
    const run = acceptedRecord(request, false, true, claim.createdAt);
    // Without the arguments: it is never executed again, and they are written at its end if they are kept.
    const payload = { ...inputOf(request), input: null };
    return { claim, accepted: { run, payload, owner: this.#parts.owner } };
  }

  /** Calls `end` for a run that turns out to be stored after its caller got `in_doubt`. */
  async #orEnd<Result>(accepting: Promise<Result>, end: () => void): Promise<Result> {
    return await accepting.catch((error: unknown) => {
      if (error instanceof InDoubt) void error.settled.then((isStored) => isStored && end());
      throw error;
    });
  }

  #interrupt(request: RunRequest, claim: Claim): void {
    this.#parts.executor.endClaimed(request, claim, { kind: "refused", code: "interrupted" });
  }

  /** Registers a run as claimed before it is stored, so that the dispatcher does not requeue it. */
  async #asOurs<Result>(id: string, accepting: Promise<Result>): Promise<Result> {
    const { executor } = this.#parts;
    executor.expect(id);
    return await accepting.catch((error: unknown) => {
      if (!(error instanceof InDoubt)) executor.unexpect(id);
      else void error.settled.then((isStored) => isStored || executor.unexpect(id));
      throw error;
    });
  }

  /** Waits until it is known whether the run is stored. */
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

  /** Prevents later runs from being dispatched before this one, unless it is to wait. */
  async #arriving<Result>(
    { appNumber, dueAt }: Run,
    request: RunRequest,
    accepting: Promise<Result>,
  ): Promise<Result> {
    const { dispatcher } = this.#parts;
    if (isParked(request)) return await accepting.finally(() => dispatcher.admit(request));
    if (dueAt !== null) return await accepting.finally(() => dispatcher.dueBy(dueAt));
    dispatcher.expect(appNumber);
    return await accepting.finally(() => dispatcher.arrived(appNumber));
  }

  /** Stops waiting for runs in doubt, because the service is about to stop. */
  startDraining(): void {
    this.#acceptor.startDraining();
  }

  /** Gives up on runs that are still in doubt. */
  stop(): void {
    this.#acceptor.stop();
  }

  /** Requeues the run if it turns out to be stored, because another service may have taken it over meanwhile. */
  async #putBack({ settled }: InDoubt, { id, target }: RunRequest): Promise<void> {
    const { executor, dispatcher } = this.#parts;
    if (!(await settled)) return;
    executor.unexpect(id);
    dispatcher.putBack(target.appNumber);
  }

  /** Refuses new runs when the disk is nearly full, or the database is broken. */
  #checkReserve(): void {
    const message = this.#parts.reserve.refusal;
    if (message !== null) throw new AppError("storage_unavailable", { message });
  }

  async #checkBacklog({ target: { appNumber, config } }: RunRequest): Promise<void> {
    const most = config.queue?.maxBacklog;
    if (most) await this.#parts.dispatcher.backlogLimit.check(appNumber, most);
  }

  /** Throws if the app's queue takes no async runs. */
  checkOpen(appNumber: number): void {
    if (!this.#parts.isDraining(appNumber)) return;
    throw new AppError("queue_draining", { headers: { "retry-after": DRAIN_RETRY_SECONDS } });
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

/** Records what happens to a run. Grants no chunks, so that its generator waits. */
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

  /** Hands the run over, with all that has happened. */
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

/** Whether the run waits until its concurrency key is admitted. A delayed one waits for its time first. */
function isParked({ terms, target }: RunRequest): boolean {
  return (
    terms !== undefined &&
    terms !== null &&
    terms.concurrencyKey !== null &&
    terms.notBefore === null &&
    hasKeyLimits(target.config.queue)
  );
}

function acceptedRecord(request: RunRequest, isAsync: boolean, isClaimed: boolean, createdAt: number): Run {
  const dueAt = isClaimed ? null : (request.terms?.notBefore ?? null);
  return makeRun(request, {
    ...NOT_BEGUN,
    dueAt,
    isAsync,
    state: isClaimed ? "running" : "queued",
    createdAt,
  });
}
