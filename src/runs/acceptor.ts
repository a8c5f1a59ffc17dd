import { Batcher } from "../kit/batcher.ts";
import type { Clock } from "../kit/clock.ts";
import { insist } from "../kit/insist.ts";
import { within } from "../kit/within.ts";
import { AppError } from "../model/errors.ts";
import type { Log } from "../kit/log.ts";
import type { AcceptedRun } from "../store/runs.ts";
import type { Store } from "../store/store.ts";

export type AcceptorParts = { readonly store: Pick<Store, "runs">; readonly clock: Clock; readonly log: Log };

const BATCH = 512;
/** How long a caller waits to learn whether a run was stored whose commit nobody answered. */
const DOUBT_MS = 5_000;
const ASK_AGAIN_MS = 250;

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
  #isStopping = false;

  constructor(parts: AcceptorParts) {
    const { store } = parts;
    this.#parts = parts;
    this.#accepts = new Batcher(async (batch) => await store.runs.accept(batch), BATCH);
    this.#refusals = new Batcher(async (batch) => new Set(await store.runs.refuse(batch)), BATCH);
  }

  /** Resolves when the run is stored. Rejects if it surely is not and never will be, or with `InDoubt`. */
  async accept(run: AcceptedRun): Promise<void> {
    try {
      await this.#accepts.add(run);
    } catch (error) {
      await this.#resolve(run, error);
    }
  }

  /** The same of a write that stores the run besides other things; it is done again if it did not happen. */
  async resolve<Result>(run: AcceptedRun, write: () => Promise<Result>, stored: Result): Promise<Result> {
    try {
      return await write();
    } catch (error) {
      await this.#resolve(run, error);
      return stored;
    }
  }

  /** What is in doubt now stays so until the next start. */
  stop(): void {
    this.#isStopping = true;
  }

  /** Returns if the run is stored after all, else throws. */
  async #resolve(run: AcceptedRun, error: unknown): Promise<void> {
    if (!(error instanceof AppError) || error.code !== "in_doubt") throw error;
    const settled = this.#settle(run);
    const isStored = await within(DOUBT_MS, settled, this.#parts.clock);
    if (isStored === null) throw new InDoubt(run.run.id, settled);
    if (!isStored) throw new AppError("storage_unavailable", {}, error);
  }

  /** Whether the run is stored. If it is not, its place is taken, so that a commit still on its way finds no room. */
  async #settle(run: AcceptedRun): Promise<boolean> {
    this.#doubts += 1;
    try {
      if (this.#isStopping) return false;
      const refused = await insist(() => this.#refusals.add(run), {
        clock: this.#parts.clock,
        gapMs: () => ASK_AGAIN_MS,
        goesOn: (error) => {
          this.#warn(error, run.run.id);
          return !this.#isStopping;
        },
      });
      return refused !== null && !refused.has(run.run.id);
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
      "it is not known whether a run was stored; asking until it is",
    );
  }

  #reassure(): void {
    if (!this.#isTold || this.#isStopping) return;
    this.#isTold = false;
    this.#parts.log.info("it is known of every run whether it was stored");
  }
}
