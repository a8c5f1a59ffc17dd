import type { Clock } from "../kit/clock.ts";
import { FairLane } from "../kit/concurrency.ts";
import { AppError, isInDoubt } from "../model/errors.ts";
import { Batcher } from "../kit/batcher.ts";
import { retry } from "../kit/retry.ts";
import type { Log } from "../kit/log.ts";
import type { AcceptedRun } from "../store/runs/accepted-runs.ts";
import type { Store } from "../store/store.ts";

/** Smaller inputs do not need a turn. */
const LITTLE_BYTES = 64 * 1024;
/** More in parallel would not be faster. */
const LIMITS = { total: 16, perKey: 8, waiting: 256, waitMs: 4_000 };
/** Each call with a key is a transaction; without a limit, one app could take all connections. */
const KEYED = { total: 64, perKey: 32, waiting: 10_000, waitMs: 4_000 };
type Input = { readonly appNumber: number; readonly bytes: number; readonly isBlob: boolean };

/**
 * Stores large inputs and calls with keys. Apps take turns, so that none delays the others, and a call that would wait too
 * long is refused before anything is stored. A hanging blob store does not delay inputs in rows.
 */
export class InputTurns {
  readonly #rows: FairLane;
  readonly #blobs: FairLane;
  readonly #keyed: FairLane;

  constructor(clock: Clock) {
    this.#rows = new FairLane(LIMITS, clock);
    this.#blobs = new FairLane(LIMITS, clock);
    this.#keyed = new FairLane(KEYED, clock);
  }

  /** Stores an input in its app's turn; throws `storage_unavailable` if too many wait. */
  async take<Result>({ appNumber, bytes, isBlob }: Input, store: () => Promise<Result>): Promise<Result> {
    if (bytes <= LITTLE_BYTES) return await store();
    return await (isBlob ? this.#blobs : this.#rows).run(String(appNumber), tooMany, store);
  }

  /** The same for a call with a key, of any size. */
  async takeKeyed<Result>(appNumber: number, store: () => Promise<Result>): Promise<Result> {
    return await this.#keyed.run(String(appNumber), tooMany, store);
  }
}

function tooMany(): AppError {
  const message = "More is sent than can be stored right now; nothing was accepted. Try again shortly.";
  return new AppError("storage_unavailable", { message, headers: { "retry-after": "1" } });
}

type AcceptorParts = { readonly store: Pick<Store, "runs">; readonly clock: Clock; readonly log: Log };

/** One statement's share: 2 MiB take a fraction of its 4 s. Apps take turns, so that none delays the others. */
const BATCH = {
  maxItems: 512,
  maxWeight: 2 * 1024 * 1024,
  weightOf: ({ payload }: AcceptedRun) => payload.input?.length ?? 0,
  keyOf: ({ run }: AcceptedRun) => run.appNumber,
};
/** How long a caller waits to learn whether its run is stored: less than 5 s, with everything else. */
const ANSWER_MS = 4_750;
/** The same while the service stops. */
const LAST_ANSWER_MS = 1_000;
const ASK_AGAIN_MS = 250;

/** A run that may be in doubt; `ask` finds out whether it is stored. */
type Doubted = { readonly runId: string; readonly ask: () => Promise<boolean> };

type Waiting = { isInDoubt: boolean; readonly giveUp: () => void };

const GIVEN_UP = Symbol("given up");

/** It is not known in time whether the run is stored; `settled` resolves with it later. */
export class InDoubt extends AppError {
  readonly settled: Promise<boolean>;

  constructor(runId: string, settled: Promise<boolean>) {
    super("in_doubt", {
      message: `The run ${runId} may or may not have been accepted: the connection to storage was lost while saving it. Look it up by its id before you send it again.`,
    });
    this.settled = settled;
  }
}

/** Stores accepted runs in batches. If a commit's connection breaks, finds out its outcome; a refused run never appears. */
export class Acceptor {
  readonly #parts: AcceptorParts;
  readonly #accepts: Batcher<AcceptedRun, void>;
  readonly #refusals: Batcher<AcceptedRun, Set<string>>;
  /** How many runs are in doubt, and whether the log has a warning about them. */
  #doubts = 0;
  #hasWarned = false;
  readonly #waiting = new Set<Waiting>();
  #isDraining = false;
  #isStopping = false;

  constructor(parts: AcceptorParts) {
    const { store } = parts;
    this.#parts = parts;
    this.#accepts = new Batcher(async (batch) => await store.runs.accept(batch), BATCH);
    // Refusals have no inputs, so no weight.
    const limits = { maxItems: BATCH.maxItems, keyOf: BATCH.keyOf };
    this.#refusals = new Batcher(async (batch) => new Set(await store.runs.refuse(batch)), limits);
  }

  /** Resolves when the run is stored. Rejects if it never will be, or with `InDoubt`. */
  async accept(run: AcceptedRun): Promise<void> {
    await this.#answer(this.#refusable(run), this.#accepts.add(run), undefined);
  }

  /** The same for a run in progress; in doubt it is stored again instead of refused. */
  async adopt(run: AcceptedRun): Promise<void> {
    const store = async () => await this.#accepts.add(run);
    const ask = async () => await store().then(() => true);
    await this.#answer({ runId: run.run.id, ask }, store(), undefined);
  }

  /** The same for a write that may also store nothing; `stored` is its result if it stored the run. */
  async resolve<Result extends { readonly kind: string }>(
    run: AcceptedRun,
    writing: Promise<Result>,
    stored: Result,
  ): Promise<Result> {
    return await this.#answer(this.#refusable(run), writing, stored, ({ kind }) => kind === stored.kind);
  }

  /** Answers callers whose runs are in doubt at once, and others within a second, before their connections are closed. */
  startDraining(): void {
    this.#isDraining = true;
    for (const waiting of this.#waiting) if (waiting.isInDoubt) waiting.giveUp();
    this.#parts.clock.after(LAST_ANSWER_MS, () => this.#giveUp());
  }

  /** Runs in doubt stay so until the next start. */
  stop(): void {
    this.#isDraining = true;
    this.#isStopping = true;
    this.#giveUp();
  }

  /** Finds out whether the run is stored; if not, blocks its id, so that a late commit fails. */
  #refusable(run: AcceptedRun): Doubted {
    const { id: runId } = run.run;
    return { runId, ask: async () => !(await this.#refusals.add(run)).has(runId) };
  }

  #giveUp(): void {
    for (const waiting of this.#waiting) waiting.giveUp();
  }

  /** One time limit for the write and for finding out. */
  async #answer<Result>(
    run: Doubted,
    writing: Promise<Result>,
    stored: Result,
    isStored: (result: Result) => boolean = () => true,
  ): Promise<Result> {
    const given = Promise.withResolvers<typeof GIVEN_UP>();
    const waiting: Waiting = { isInDoubt: false, giveUp: () => given.resolve(GIVEN_UP) };
    const timer = this.#parts.clock.after(ANSWER_MS, waiting.giveUp);
    const finding = this.#find(run, writing, stored, waiting);
    this.#waiting.add(waiting);
    try {
      const found = await Promise.race([finding, given.promise]);
      if (found !== GIVEN_UP) return found;
    } finally {
      timer.cancel();
      this.#waiting.delete(waiting);
    }
    // The caller will look the run up, so a run that was never sent needs its refusal too.
    const settled = finding.then(isStored, () => this.#settle(run));
    throw new InDoubt(run.runId, settled);
  }

  /** The result of the write, or what it would have been; rejects if the run is certainly not stored. */
  async #find<Result>(
    run: Doubted,
    writing: Promise<Result>,
    stored: Result,
    waiting: Waiting,
  ): Promise<Result> {
    try {
      return await writing;
    } catch (error) {
      if (!isInDoubt(error)) throw error;
      waiting.isInDoubt = true;
      if (this.#isDraining) waiting.giveUp();
      if (await this.#settle(run)) return stored;
      throw new AppError("storage_unavailable", {}, error);
    }
  }

  async #settle({ runId, ask }: Doubted): Promise<boolean> {
    const { clock, log } = this.#parts;
    this.#doubts += 1;
    try {
      if (this.#isStopping) return false;
      const isStored = await retry(ask, {
        clock,
        delayMs: () => ASK_AGAIN_MS,
        shouldRetry: (error) => {
          const text = "unclear whether a run was stored; checking until the storage answers";
          // Once, because each run in doubt is checked four times a second.
          if (!this.#hasWarned) log.warn({ err: error, runId }, text);
          this.#hasWarned = true;
          return !this.#isStopping;
        },
      });
      return isStored ?? false;
    } finally {
      this.#doubts -= 1;
      if (this.#doubts === 0 && this.#hasWarned && !this.#isStopping) {
        this.#hasWarned = false;
        log.info("all runs in doubt are resolved");
      }
    }
  }
}
