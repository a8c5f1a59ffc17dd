import { setTimeout as pause } from "node:timers/promises";
import type { KillableService } from "../../support/killable-service.ts";
import { until } from "../../support/until.ts";

/** A sync call that was not answered well. */
export type Failure = { readonly from: number; readonly to: number; readonly what: string };

type Caller = { answeredAt: number | null };
type Result = { readonly n: number; readonly version: number; readonly host: string };

const CALLERS = 4;
/** Between two requests of one caller, and what a call takes in its replica. */
const REST_MS = 40;
const RUN_MS = 20;
const SUBMIT_EVERY_MS = 200;
const LOOKERS = 8;

/** An app that answers what it is asked, and tells who it is. */
export function echoMain(version = 0): string {
  return `
import os, time
def run(n, ms=0):
    time.sleep(ms / 1000)
    return {"n": n, "version": ${version}, "host": os.uname().nodename}
`;
}

/** Callers of such an app, who go on whatever happens: some wait for their answers, some do not. */
export class Load {
  /** Sync calls that were answered well, and those that were not. */
  answered = 0;
  readonly failures: Failure[] = [];
  /** What no fault explains. */
  readonly wrong: string[] = [];
  /** Async runs that were accepted: their arguments, by id. */
  readonly accepted = new Map<string, number>();
  readonly versions = new Set<number>();
  /** Those who answered. */
  readonly hosts = new Set<string>();
  readonly #service: KillableService;
  readonly #callers: Caller[] = Array.from({ length: CALLERS }, () => ({ answeredAt: null }));
  readonly #all: Promise<unknown>;
  #n = 0;
  #since = Number.POSITIVE_INFINITY;
  #isOver = false;

  constructor(service: KillableService) {
    this.#service = service;
    const callers = this.#callers.map((caller) => this.#again(REST_MS, () => this.#call(caller)));
    this.#all = Promise.all([...callers, this.#again(SUBMIT_EVERY_MS, () => this.#submit())]);
  }

  /** Waits until so many more calls were answered. */
  async untilAnswered(count: number): Promise<void> {
    const target = this.answered + count;
    await until(`${count} calls are answered`, () => this.answered >= target || this.wrong.length > 0);
  }

  /** How long it takes from now until every caller has an answer to a call that begins after now. */
  async recoveryMs(): Promise<number> {
    const since = Date.now();
    for (const caller of this.#callers) caller.answeredAt = null;
    this.#since = since;
    await until("every caller is answered", () => this.#callers.every(({ answeredAt }) => answeredAt));
    this.#since = Number.POSITIVE_INFINITY;
    return Math.max(...this.#callers.map(({ answeredAt }) => answeredAt ?? 0)) - since;
  }

  /** No more requests; resolves when all have their answers. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#all;
  }

  /** Waits until every run that was accepted has ended; one that did not end well is wrong. */
  async keep(): Promise<void> {
    const left = this.accepted.entries();
    const look = async (): Promise<void> => {
      for (const [id, n] of left) {
        const { status, result } = await this.#service.ended(id);
        if (status !== "success" || (result as Result).n !== n) this.wrong.push(`${id}: ${status}`);
      }
    };
    await Promise.all(Array.from({ length: LOOKERS }, look));
  }

  /** The failures that did not happen while something was broken, one line each. */
  unexplained(from: number, to: number): string[] {
    return this.failures
      .filter((failure) => failure.from > to || failure.to < from)
      .map(
        (failure) =>
          `${failure.from - from} ms after the fault, ${failure.to - failure.from} ms: ${failure.what}`,
      );
  }

  async #again(restMs: number, act: () => Promise<void>): Promise<void> {
    while (!this.#isOver) {
      await act();
      await pause(restMs);
    }
  }

  async #call(caller: Caller): Promise<void> {
    const n = (this.#n += 1);
    const from = Date.now();
    const answer = await this.#post(n, "");
    const to = Date.now();
    if (typeof answer === "string" || answer.status !== 200) {
      const what = typeof answer === "string" ? answer : `${answer.status} ${JSON.stringify(answer.json)}`;
      this.failures.push({ from, to, what: what.slice(0, 300) });
      return;
    }
    const result = answer.json.result as Result;
    if (result.n !== n) this.wrong.push(`call ${n}: ${JSON.stringify(answer.json)}`);
    this.answered += 1;
    this.versions.add(result.version);
    this.hosts.add(result.host);
    if (from >= this.#since) caller.answeredAt ??= to;
  }

  /** Whether a run was accepted whose answer was lost, nobody knows. */
  async #submit(): Promise<void> {
    const n = (this.#n += 1);
    const answer = await this.#post(n, "?async=true");
    if (typeof answer !== "string" && answer.status === 202) this.accepted.set(answer.json.run_id, n);
  }

  async #post(n: number, query: string) {
    return await this.#service.post({ n, ms: RUN_MS }, { query }).catch((error: unknown) => {
      const { message, cause } = error as Error;
      return `${message}: ${String(cause)}`;
    });
  }
}
