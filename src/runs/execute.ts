import { Condition } from "../kit/concurrency.ts";
import type { Outcome } from "../model/outcome.ts";
import { BACK } from "./large-payloads.ts";
import {
  type Claim,
  LiveRun,
  type RunParts,
  type RunReader,
  type RunRecorder,
  type RunRequest,
} from "./live-run.ts";

/** Four bits each of two characters. */
const CHAINS = 256;

/** THE path of a run: every mode hands it to a replica here and learns its one outcome here. */
export class Executor {
  readonly #parts: RunParts;
  readonly #lightRecorder: RunRecorder;
  readonly #claimRecorder: RunRecorder;
  /**
   * Linked lists by the end of the id: a map or a set costs the garbage collector more (see `CallTable`). Measured: 15 ns
   * more for each run than a single list, 30 with an array for each chain.
   */
  readonly #chains: (LiveRun | null)[] = Array.from({ length: CHAINS }, () => null);
  /** Runs that are being stored, or are stored, as this service's, and are not executed yet. */
  readonly #expected = new Set<string>();
  /** Notified when that run begins. */
  readonly #awaited = new Map<string, Condition>();
  readonly #forget = (run: LiveRun): void => {
    const { before, after } = run;
    if (before) before.after = after;
    else this.#chains[chainOf(run.request.id)] = after;
    if (after) after.before = before;
    run.before = null;
    run.after = null;
  };

  /** The recorders write the ends of light runs, and of runs that are stored before they end. */
  constructor(parts: RunParts, lightRecorder: RunRecorder, claimRecorder: RunRecorder) {
    this.#parts = parts;
    this.#lightRecorder = lightRecorder;
    this.#claimRecorder = claimRecorder;
  }

  /** Starts a run; its reader may learn its end before this returns. */
  execute(request: RunRequest, reader: RunReader): LiveRun {
    return this.#start(new LiveRun(request, this.#parts, reader, this.#lightRecorder, null, this.#forget));
  }

  /** A run is about to be stored as this service's; expected until it is executed, ended, or `unexpect` is called. */
  expect(id: string): void {
    this.#expected.add(id);
  }

  /** That run is in progress here by now, or will never be stored. */
  unexpect(id: string): void {
    this.#expected.delete(id);
  }

  /** Starts a run that is stored already. */
  executeClaimed(request: RunRequest, claim: Claim, reader: RunReader | null): LiveRun {
    this.#expected.delete(request.id);
    return this.#start(new LiveRun(request, this.#parts, reader, this.#claimRecorder, claim, this.#forget));
  }

  /** Ends a run that is in the store without executing it. */
  endClaimed(request: RunRequest, claim: Claim, outcome: Outcome): LiveRun {
    const run = new LiveRun(request, this.#parts, null, this.#claimRecorder, claim, this.#forget);
    this.#expected.delete(request.id);
    this.#enter(run);
    run.call.enqueuedAt = this.#parts.clock.monotonic();
    run.call.end(outcome);
    return run;
  }

  find(id: string): LiveRun | undefined {
    let run = this.#chains[chainOf(id)];
    while (run && run.request.id !== id) run = run.after;
    return run ?? undefined;
  }

  /** Resolves when that run next begins here, or the signal aborts. */
  async begun(id: string, signal: AbortSignal): Promise<void> {
    const condition = this.#awaited.get(id) ?? new Condition();
    this.#awaited.set(id, condition);
    await condition.wait(signal);
    if (!condition.isAwaited && this.#awaited.get(id) === condition) this.#awaited.delete(id);
  }

  /** Puts the claimed async runs of an app back into its queue that have not been handed to a replica. */
  putBack(appNumber: number): void {
    const waiting: LiveRun[] = [];
    for (const first of this.#chains) {
      for (let run = first; run; run = run.after) {
        const isOfApp = run.request.target.appNumber === appNumber;
        if (isOfApp && run.isAsync && run.call.holder === null && !run.call.hasEnded) waiting.push(run);
      }
    }
    for (const run of waiting) run.abandon(BACK);
  }

  /** The ids of stored runs that are in progress, whose end is being stored, or that are expected. */
  claimed(): Set<string> {
    const claimed = new Set(this.#expected);
    for (const first of this.#chains) {
      for (let run = first; run; run = run.after) if (run.claim) claimed.add(run.request.id);
    }
    return claimed;
  }

  /** How many runs of a project, or of one account of it, have not ended; counted up to `most`. */
  countOf({ projectId, accountId }: { projectId: string; accountId: string | null }, most: number): number {
    let count = 0;
    for (const first of this.#chains) {
      for (let run = first; run && count < most; run = run.after) {
        const { target, caller } = run.request;
        const isMeant = accountId === null || caller?.accountId === accountId;
        if (isMeant && run.end === null && target.projectId === projectId) count += 1;
      }
    }
    return count;
  }

  #enter(run: LiveRun): void {
    const chain = chainOf(run.request.id);
    const first = this.#chains[chain] ?? null;
    run.after = first;
    if (first) first.before = run;
    this.#chains[chain] = run;
    if (this.#awaited.size > 0) this.#awaited.get(run.request.id)?.notify();
  }

  #start(run: LiveRun): LiveRun {
    this.#enter(run);
    run.request.target.slots.submit(run.call);
    return run;
  }
}

/** By the last two digits, which are random. Some letters share a chain with a digit: none has more than one run in 64. */
function chainOf(id: string): number {
  return ((id.charCodeAt(id.length - 2) & 15) << 4) | (id.charCodeAt(id.length - 1) & 15);
}
