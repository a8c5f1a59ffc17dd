import type { Outcome } from "../model/outcome.ts";
import { LiveRun } from "./live-run.ts";
import type { Claim, RunKeeper, RunParts, RunReader, RunRequest } from "./live-run.ts";

const NOBODY: RunReader = { onStream: () => undefined, onChunk: () => undefined, onEnd: () => undefined };

/** THE path of a run: every mode hands it to a replica here and learns its one outcome here. */
export class Executor {
  readonly #parts: RunParts;
  readonly #keeper: RunKeeper;
  /** A set, not a map by id: every call pays for a key that only a look from outside would use. */
  readonly #live = new Set<LiveRun>();
  readonly #forget = (run: LiveRun): void => void this.#live.delete(run);

  /** `keeper` writes the ends of runs that nothing was written of before. */
  constructor(parts: RunParts, keeper: RunKeeper) {
    this.#parts = parts;
    this.#keeper = keeper;
  }

  /** Starts a run; its reader may learn its end before this returns. */
  execute(request: RunRequest, reader: RunReader): LiveRun {
    return this.#start(new LiveRun(request, this.#parts, reader, this.#keeper, null, this.#forget));
  }

  /** Starts a run that is in the store already. */
  executeClaimed(request: RunRequest, claim: Claim, reader: RunReader, keeper: RunKeeper): LiveRun {
    return this.#start(new LiveRun(request, this.#parts, reader, keeper, claim, this.#forget));
  }

  /** Ends a run that is in the store without executing it. */
  endClaimed(request: RunRequest, claim: Claim, keeper: RunKeeper, outcome: Outcome): LiveRun {
    const run = new LiveRun(request, this.#parts, NOBODY, keeper, claim, this.#forget);
    this.#live.add(run);
    run.call.enqueuedAt = this.#parts.clock.monotonic();
    run.call.end(outcome);
    return run;
  }

  /** The run with that id, while it is under way. */
  find(id: string): LiveRun | undefined {
    for (const run of this.#live) if (run.request.id === id) return run;
    return undefined;
  }

  #start(run: LiveRun): LiveRun {
    this.#live.add(run);
    run.request.target.pool.submit(run.call);
    return run;
  }
}
