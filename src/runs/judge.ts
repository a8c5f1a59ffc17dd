import type { Log } from "../kit/log.ts";
import type { Store } from "../store/store.ts";

export type JudgeParts = {
  readonly store: Pick<Store, "claims">;
  readonly log: Log;
  /** This process, among those that share the database. */
  readonly owner: string;
};

/** Takes over the runs of nodes that have died. */
export class Judge {
  readonly #parts: JudgeParts;
  #isJudging = false;

  constructor(parts: JudgeParts) {
    this.#parts = parts;
  }

  /**
   * Puts their runs back into the queue, once at a time: where a table that it writes is locked it waits for long, and
   * several would take all the connections by which the ends of runs are written.
   */
  async judge(): Promise<void> {
    if (this.#isJudging) return;
    const { store, owner, log } = this.#parts;
    this.#isJudging = true;
    try {
      const count = await store.claims.recover({ owner, isAlone: false });
      if (count > 0) log.info({ count }, "requeued runs of a node that has died");
    } catch (error) {
      log.error({ err: error }, "could not look for runs left by dead nodes");
    } finally {
      this.#isJudging = false;
    }
  }
}
