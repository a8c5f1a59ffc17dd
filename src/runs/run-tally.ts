import { SpanCounts } from "../kit/histograms.ts";
import { isServerRun } from "../model/http-request.ts";
import type { Run, RunState } from "../model/run.ts";
import type { RunTiming } from "./live-run.ts";

/** From what a replica answers at once to what takes ten minutes; each is at most five times the one before. */
const RUN_BOUNDS_MS = [5, 25, 100, 250, 1_000, 2_500, 10_000, 30_000, 120_000, 600_000] as const;

/** As many as an app may have. */
const MAX_FUNCTIONS = 1_000;

/** Stands for all paths of a server app. */
export const SERVER_FUNCTION = "/";
/** Stands for names of functions that an app does not have, or that never began. */
export const OTHER_FUNCTION = "(other)";

type FinalState = Exclude<RunState, "queued" | "running">;

/** What has become of the runs of one function. */
export class FunctionTally {
  readonly states: Record<FinalState, number> = { success: 0, failure: 0, cancelled: 0 };
  /** Failures by the code of their error. */
  readonly codes = new Map<string, number>();
  /** From the acceptance, or the end of the delay that was asked for, until the end. */
  readonly response: SpanCounts;
  /** Of this, the time in which the run waited while a replica was ready; */
  readonly queue: SpanCounts;
  /** the time in which it waited for a replica to start, only of runs that did; */
  readonly coldStart: SpanCounts;
  /** and the time inside the function, only of runs that were executed. */
  readonly execution: SpanCounts;

  /** `isExponential`: its times are also counted for an export to OpenTelemetry. */
  constructor(isExponential = false) {
    const spans = (): SpanCounts => new SpanCounts(RUN_BOUNDS_MS, isExponential);
    this.response = spans();
    this.queue = spans();
    this.coldStart = spans();
    this.execution = spans();
  }

  /** Adds all that another one has. */
  addAll(other: FunctionTally): void {
    for (const state of ["success", "failure", "cancelled"] as const)
      this.states[state] += other.states[state];
    for (const [code, count] of other.codes) this.codes.set(code, (this.codes.get(code) ?? 0) + count);
    for (const span of ["response", "queue", "coldStart", "execution"] as const)
      this[span].addAll(other[span]);
  }
}

/** What is known of the apps whose runs are counted. */
export type TalliedApps = {
  readonly serves: (appNumber: number) => boolean;
  /** Whether the app is known to have that function, even if no replica of it has ever been ready. */
  readonly hasFunction: (appNumber: number, name: string) => boolean;
};
const ANY_APP: TalliedApps = { serves: () => true, hasFunction: () => false };

/** Counts the runs that have ended here, by app and function, since it was made. It allocates only at a function's first run. */
export class RunTally {
  /** By the app's number, in the order of their first runs; then by function. */
  readonly byApp = new Map<number, Map<string, FunctionTally>>();
  readonly #isExponential: boolean;
  readonly #apps: TalliedApps;

  constructor(isExponential = false, apps: TalliedApps = ANY_APP) {
    this.#isExponential = isExponential;
    this.#apps = apps;
  }

  /** Notes the end of a run; `timing` is null for one that ended in the queue. */
  add(run: Run, timing: RunTiming | null): void {
    const { state, responseMs } = run;
    if (state === "queued" || state === "running") return;
    const tally = this.#of(run);
    if (!tally) return;
    tally.states[state] += 1;
    if (state === "failure") {
      const code = codeOf(run);
      tally.codes.set(code, (tally.codes.get(code) ?? 0) + 1);
    }
    // A delay that its caller asked for is no time that anything took.
    const notBefore = run.terms?.notBefore ?? run.createdAt;
    const delayMs = notBefore > run.createdAt ? notBefore - run.createdAt : 0;
    if (responseMs !== null) note(tally.response, Math.max(0, responseMs - delayMs), run);
    if (timing === null) return;
    note(tally.queue, Math.max(0, timing.queueMs - delayMs), run);
    if (timing.startMs > 0) note(tally.coldStart, timing.startMs, run);
    if (timing.runMs !== null) note(tally.execution, timing.runMs, run);
  }

  /** An app was deleted. */
  forget(appNumber: number): void {
    this.byApp.delete(appNumber);
  }

  /** Null for an app that is deleted, or is another node's: its runs may still end here. */
  #of(run: Run): FunctionTally | null {
    const { appNumber } = run;
    let functions = this.byApp.get(appNumber);
    if (!functions) {
      if (!this.#apps.serves(appNumber)) return null;
      functions = new Map();
      this.byApp.set(appNumber, functions);
    }
    const name = isServerRun(run) ? SERVER_FUNCTION : run.functionName;
    return functions.get(name) ?? this.#begin(functions, this.#nameOf(run, name, functions.size));
  }

  #begin(functions: Map<string, FunctionTally>, name: string): FunctionTally {
    const tally = functions.get(name) ?? new FunctionTally(this.#isExponential);
    functions.set(name, tally);
    return tally;
  }

  /** Callers choose the names of functions: only one that is known, or that a replica has taken, gets a tally of its own. */
  #nameOf({ appNumber, startedAt, errorCode }: Run, name: string, known: number): string {
    if (known >= MAX_FUNCTIONS) return OTHER_FUNCTION;
    const hasBegun = startedAt !== null && errorCode !== "function_not_found";
    const exists = name === SERVER_FUNCTION || hasBegun || this.#apps.hasFunction(appNumber, name);
    return exists ? name : OTHER_FUNCTION;
  }
}

/** Of an answer with a status of 400 to 499. */
export const CALLERS_CODE = "http_4xx";

/** A server app's own answer has a status, and no code. */
function codeOf({ errorCode, statusCode }: Run): string {
  return errorCode ?? ((statusCode ?? 500) < 500 ? CALLERS_CODE : "http_5xx");
}

/** Only a trace that is recorded can be looked up. */
function note(spans: SpanCounts, ms: number, { trace, updatedAt }: Run): void {
  if (trace?.isSampled) spans.addTraced(ms, trace.traceId, updatedAt);
  else spans.add(ms);
}
