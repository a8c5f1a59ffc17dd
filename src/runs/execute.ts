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
  /** Runs on their way into the store as ours: they may be there already, and nothing here knows them yet. */
  readonly #expected = new Set<string>();
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

  /** A run is about to be stored as ours. It is expected until it is executed or ended here, or `unexpect` is called. */
  expect(id: string): void {
    this.#expected.add(id);
  }

  /** That run is under way here by now, or will never be stored. */
  unexpect(id: string): void {
    this.#expected.delete(id);
  }

  /** Starts a run that is in the store already. */
  executeClaimed(request: RunRequest, claim: Claim, reader: RunReader, keeper: RunKeeper): LiveRun {
    this.#expected.delete(request.id);
    return this.#start(new LiveRun(request, this.#parts, reader, keeper, claim, this.#forget));
  }

  /** Ends a run that is in the store without executing it. */
  endClaimed(request: RunRequest, claim: Claim, keeper: RunKeeper, outcome: Outcome): LiveRun {
    const run = new LiveRun(request, this.#parts, NOBODY, keeper, claim, this.#forget);
    this.#expected.delete(request.id);
    this.#enter(run);
    run.call.enqueuedAt = this.#parts.clock.monotonic();
    run.call.end(outcome);
    return run;
  }

  /** The run with that id, while it is under way. */
  find(id: string): LiveRun | undefined {
    return this.#live.find((run) => run.request.id === id);
  }

  /** The ids of stored runs that are under way, whose end is being written down, or that are expected. */
  claimed(): Set<string> {
    const claimed = this.#live.filter(({ claim }) => claim);
    return new Set([...claimed.map(({ request }) => request.id), ...this.#expected]);
  }

  #enter(run: LiveRun): void {
    run.place = this.#live.push(run) - 1;
  }

  #start(run: LiveRun): LiveRun {
    this.#enter(run);
    run.request.target.pool.submit(run.call);
    return run;
  }
}
