import { type Clock, pause, type Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import type { RunKey } from "../model/run.ts";
import { hasRun, lateness, type Terms } from "../model/terms.ts";
import type { Store } from "../store/store.ts";
import type { Canceller } from "./cancel.ts";
import type { LiveRun } from "./live-run.ts";

const LOOK_MS = 1_000;
/** Times that are looked at together. */
const PAGE = 100;
/** When a run in progress is looked at again: where it is executed it ends in time, unless that service dies. */
const AGAIN_MS = 60_000;
/** Node's timers take no more than 24 days. */
const LONGEST_PAUSE_MS = 24 * 3600 * 1000;

type LateParts = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly canceller: Pick<Canceller, "endLate">;
};

/** Ends queued runs that are late by their terms. Every service does it; each run ends once. */
export class LateRuns {
  readonly #parts: LateParts;
  readonly #timer: Timer;
  #looking: Promise<void> | null = null;
  #isStopping = false;

  constructor(parts: LateParts) {
    this.#parts = parts;
    this.#timer = parts.clock.every(LOOK_MS, () => {
      this.#looking ??= this.#look()
        .catch((error: unknown) => parts.log.error({ err: error }, "could not look for late runs"))
        .finally(() => (this.#looking = null));
    });
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#timer.cancel();
    await this.#looking;
  }

  async #look(): Promise<void> {
    const { store, clock } = this.#parts;
    for (let isMore = true; isMore && !this.#isStopping;) {
      const now = clock.now();
      const passed = await store.limits.passed({ now, limit: PAGE });
      const areOver = await Promise.all(
        passed.map(async (limit) => limit.isOver || (await this.#end(limit, now))),
      );
      const seen = passed.map((limit, i) => ({ ...limit, again: areOver[i] ? null : now + AGAIN_MS }));
      if (seen.length > 0) await store.limits.settle(seen);
      isMore = passed.length === PAGE;
    }
  }

  /** False if the run has to be looked at again. */
  async #end(key: RunKey, now: number): Promise<boolean> {
    const { canceller, log } = this.#parts;
    try {
      return await canceller.endLate(key, now);
    } catch (error) {
      // Its own fault keeps no other run from its end.
      log.error({ err: error, runId: key.id }, "could not end a late run; trying again in a minute");
      return false;
    }
  }
}

/** Ends a run in progress here when it is late. Resolves when it has ended. */
export async function endWhenLate(run: LiveRun, terms: Terms, clock: Clock): Promise<void> {
  const settled = new AbortController();
  const settling = run.settled().then(() => settled.abort());
  while (!settled.signal.aborted) {
    const now = clock.now();
    const hasBegun = run.call.handedAt > 0 || (run.claim !== null && hasRun(run.claim));
    const code = lateness(terms, hasBegun, now);
    if (code) run.abandon({ kind: "late", code });
    const coming = [terms.startBy, terms.endBy].filter((at) => at !== null && at > now) as number[];
    if (code || coming.length === 0) break;
    await pause(clock, Math.min(...coming.map((at) => at - now), LONGEST_PAUSE_MS), settled.signal);
  }
  await settling;
}
