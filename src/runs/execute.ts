import type { Outcome } from "../model/outcome.ts";
import { LiveRun } from "./live-run.ts";
import type { Claim, RunKeeper, RunParts, RunReader, RunRequest } from "./live-run.ts";

const NOBODY: RunReader = { onStream: () => undefined, onChunk: () => undefined, onEnd: () => undefined };

/** THE path of a run: every mode hands it to a replica here and learns its one outcome here. */
export class Executor {
  readonly #parts: RunParts;
  readonly #keeper: RunKeeper;
  /** In no order, each with its place: a map or a set costs the garbage collector more (`call-table.ts`). */
  readonly #live: LiveRun[] = [];
  readonly #forget = (run: LiveRun): void => {
    const last = this.#live.pop();
    if (!last || last === run) return;
    this.#live[run.place] = last;
    last.place = run.place;
  };

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
    this.#enter(run);
    run.call.enqueuedAt = this.#parts.clock.monotonic();
    run.call.end(outcome);
    return run;
  }

  /** The run with that id, while it is under way. */
  find(id: string): LiveRun | undefined {
    return this.#live.find((run) => run.request.id === id);
  }

  /** The ids of an app's stored runs that are under way, or whose end is being written down. */
  claimedOf(appNumber: number): Set<string> {
    const claimed = this.#live.filter(
      ({ claim, request }) => claim && request.target.appNumber === appNumber,
    );
    return new Set(claimed.map(({ request }) => request.id));
  }

  #enter(run: LiveRun): void {
    run.place = this.#live.push(run) - 1;
  }

  #start(run: LiveRun): LiveRun {
    this.#enter(run);
    run.request.target.slots.submit(run.call);
    return run;
  }
}
