import type { Outcome } from "../model/outcome.ts";
import { LiveRun } from "./live-run.ts";
import type { Claim, RunKeeper, RunParts, RunReader, RunRequest } from "./live-run.ts";

const NOBODY: RunReader = { onStream: () => undefined, onChunk: () => undefined, onEnd: () => undefined };

/** As many as two hexadecimal digits tell apart: a run is looked for among one in so many. */
const SHELVES = 256;

/** THE path of a run: every mode hands it to a replica here and learns its one outcome here. */
export class Executor {
  readonly #parts: RunParts;
  readonly #keeper: RunKeeper;
  /**
   * By the end of their ids, which is random, and within that in no order, each with its place: a map or a set costs
   * the garbage collector more (`call-table.ts`).
   */
  readonly #live: readonly LiveRun[][] = Array.from({ length: SHELVES }, () => []);
  readonly #forget = (run: LiveRun): void => {
    const shelf = this.#shelf(run.request.id);
    const last = shelf.pop();
    if (!last || last === run) return;
    shelf[run.place] = last;
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
    return this.#shelf(id).find((run) => run.request.id === id);
  }

  /** The ids of an app's stored runs that are under way, or whose end is being written down. */
  claimedOf(appNumber: number): Set<string> {
    const claimed = new Set<string>();
    for (const shelf of this.#live) {
      for (const { claim, request } of shelf) {
        if (claim && request.target.appNumber === appNumber) claimed.add(request.id);
      }
    }
    return claimed;
  }

  #enter(run: LiveRun): void {
    run.place = this.#shelf(run.request.id).push(run) - 1;
  }

  #shelf(id: string): LiveRun[] {
    const index = (digit(id.charCodeAt(id.length - 2)) << 4) | digit(id.charCodeAt(id.length - 1));
    return this.#live[index & (SHELVES - 1)]!;
  }

  #start(run: LiveRun): LiveRun {
    this.#enter(run);
    run.request.target.slots.submit(run.call);
    return run;
  }
}

/** The value of a hexadecimal digit, by its character's code. */
function digit(code: number): number {
  return (code & 15) + (code >> 6) * 9;
}
