import type { Clock } from "../kit/clock.ts";
import { FairLane } from "../kit/concurrency.ts";
import { AppError, isInDoubt } from "../model/errors.ts";
import { Batcher } from "../kit/batcher.ts";
import { retry } from "../kit/retry.ts";
import type { Log } from "../kit/log.ts";
import type { AcceptedRun } from "../store/runs/accepted-runs.ts";
import type { Store } from "../store/store.ts";

/** Of what is smaller much is stored at once. */
const LITTLE_BYTES = 64 * 1024;
/** More at once are stored no faster, and all would be done at the end. */
const LIMITS = { total: 16, perKey: 8, waiting: 256, waitMs: 4_000 };
/** Each call with a key is a transaction of its own: many of one app would leave no connection to others. */
const KEYED = { total: 64, perKey: 32, waiting: 10_000, waitMs: 4_000 };
const CROWDED = {
  message: "More is sent than can be stored right now; nothing was accepted. Try again shortly.",
  headers: { "retry-after": "1" },
};

type Input = { readonly appNumber: number; readonly bytes: number; readonly isBlob: boolean };

/**
 * The turns of apps in which large inputs, and calls with a key, are stored: those of one app, however many, leave room for
 * others', and who would have to wait for too long is refused before anything is stored. A blob store that hangs holds up no
 * input that is a row.
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

  /** Stores an input of that many bytes in its app's turn; throws `storage_unavailable` where there are too many. */
  async take<Result>({ appNumber, bytes, isBlob }: Input, store: () => Promise<Result>): Promise<Result> {
    if (bytes <= LITTLE_BYTES) return await store();
    return await inTurn(isBlob ? this.#blobs : this.#rows, appNumber, store);
  }

  /** The same of a call with a key, whatever its size. */
  async takeKeyed<Result>(appNumber: number, store: () => Promise<Result>): Promise<Result> {
    return await inTurn(this.#keyed, appNumber, store);
  }
}

async function inTurn<Result>(
  lane: FairLane,
  appNumber: number,
  store: () => Promise<Result>,
): Promise<Result> {
  const leave = await lane.enter(String(appNumber));
  if (!leave) throw new AppError("storage_unavailable", CROWDED);
  try {
    return await store();
  } finally {
    leave();
  }
}

type AcceptorParts = { readonly store: Pick<Store, "runs">; readonly clock: Clock; readonly log: Log };

/**
 * What one statement stores. Of 2 MiB it takes a fraction of the 4 s that it has; apps take turns, so that inputs of one,
 * however large and many, hold up no other's for longer than that.
 */
const BATCH = {
  maxItems: 512,
  maxWeight: 2 * 1024 * 1024,
  weightOf: ({ payload }: AcceptedRun) => payload.input?.length ?? 0,
  keyOf: ({ run }: AcceptedRun) => run.appNumber,
};
/** How long a caller waits in all to learn whether a run was stored: less than 5 s, with what a caller needs besides. */
const ANSWER_MS = 4_750;
/** The same while the service stops, of a write that nobody has answered yet. */
const LAST_ANSWER_MS = 1_000;
const ASK_AGAIN_MS = 250;

/** A run of which it may have to be found out whether it is stored: `ask` does, until it is answered. */
type Doubted = { readonly runId: string; readonly ask: () => Promise<boolean> };

/** A caller who waits. */
type Waiting = { isInDoubt: boolean; readonly giveUp: () => void };

const GIVEN_UP = Symbol("given up");

/** Nobody could say in time whether the run is stored; `settled` will. */
export class InDoubt extends AppError {
  readonly settled: Promise<boolean>;

  constructor(runId: string, settled: Promise<boolean>) {
    super("in_doubt", {
      message: `The run ${runId} may or may not have been accepted: the connection to storage was lost while saving it. Look it up by its id before you send it again.`,
    });
    this.settled = settled;
  }
}

/**
 * Stores accepted runs, with all that come meanwhile in one commit. A connection that breaks under a commit leaves
 * it open what became of it: that is found out before anybody is told, and a run that was refused can never appear
 * later.
 */
export class Acceptor {
  readonly #parts: AcceptorParts;
  readonly #accepts: Batcher<AcceptedRun, void>;
  readonly #refusals: Batcher<AcceptedRun, Set<string>>;
  /** Runs of which it is not known whether they are stored. */
  #doubts = 0;
  /** The log knows that there are such. */
  #isTold = false;
  readonly #waiting = new Set<Waiting>();
  #isDraining = false;
  #isStopping = false;

  constructor(parts: AcceptorParts) {
    const { store } = parts;
    this.#parts = parts;
    this.#accepts = new Batcher(async (batch) => await store.runs.accept(batch), BATCH);
    // Their inputs are not sent.
    const { maxItems, keyOf } = BATCH;
    this.#refusals = new Batcher(async (batch) => new Set(await store.runs.refuse(batch)), {
      maxItems,
      keyOf,
    });
  }

  /** Resolves when the run is stored. Rejects if it surely is not and never will be, or with `InDoubt`. */
  async accept(run: AcceptedRun): Promise<void> {
    await this.#answer(this.#refusable(run), this.#accepts.add(run), undefined);
  }

  /** The same of a run that is under way and will end: in doubt it is not refused but stored again. */
  async adopt(run: AcceptedRun): Promise<void> {
    const store = async () => await this.#accepts.add(run);
    const ask = async () => await store().then(() => true);
    await this.#answer({ runId: run.run.id, ask }, store(), undefined);
  }

  /**
   * The same of a write that stores the run besides other things, or does not for a reason of its own: `stored` is
   * what it resolves with if it did.
   */
  async resolve<Result extends { readonly kind: string }>(
    run: AcceptedRun,
    writing: Promise<Result>,
    stored: Result,
  ): Promise<Result> {
    return await this.#answer(this.#refusable(run), writing, stored, ({ kind }) => kind === stored.kind);
  }

  /**
   * The service is about to stop: who waits for what nobody knows is told so at once, and within a second who waits for
   * a write that nobody has answered. Later their connections would be cut.
   */
  startDraining(): void {
    this.#isDraining = true;
    for (const waiting of this.#waiting) if (waiting.isInDoubt) waiting.giveUp();
    this.#parts.clock.after(LAST_ANSWER_MS, () => this.#giveUp());
  }

  /** What is in doubt now stays so until the next start. */
  stop(): void {
    this.#isDraining = true;
    this.#isStopping = true;
    this.#giveUp();
  }

  /** Whether it is stored. If it is not, its place is taken, so that a commit still on its way finds no room. */
  #refusable(run: AcceptedRun): Doubted {
    const { id: runId } = run.run;
    return { runId, ask: async () => !(await this.#refusals.add(run)).has(runId) };
  }

  #giveUp(): void {
    for (const waiting of this.#waiting) waiting.giveUp();
  }

  /** One time for all of it, from the write to what was found out about it. */
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
    // Who was told so will look for it: what was never sent leaves its refusal there too.
    throw new InDoubt(
      run.runId,
      finding.then(isStored, () => this.#settle(run)),
    );
  }

  /** What the write gave, or would have given; rejects if the run is surely not stored. */
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
    this.#doubts += 1;
    try {
      if (this.#isStopping) return false;
      const isStored = await retry(ask, {
        clock: this.#parts.clock,
        delayMs: () => ASK_AGAIN_MS,
        shouldRetry: (error) => {
          this.#warn(error, runId);
          return !this.#isStopping;
        },
      });
      return isStored ?? false;
    } finally {
      this.#doubts -= 1;
      if (this.#doubts === 0) this.#reassure();
    }
  }

  /** Once, however many there are and however long it lasts: each is asked about four times a second. */
  #warn(error: unknown, runId: string): void {
    if (this.#isTold) return;
    this.#isTold = true;
    this.#parts.log.warn(
      { err: error, runId },
      "unclear whether a run was stored; checking until the storage answers",
    );
  }

  #reassure(): void {
    if (!this.#isTold || this.#isStopping) return;
    this.#isTold = false;
    this.#parts.log.info("all runs in doubt are resolved");
  }
}
