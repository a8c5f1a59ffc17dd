import { setTimeout as pause } from "node:timers/promises";
import type { Cluster } from "../support/cluster/cluster.ts";
import type { Roll } from "../support/dice.ts";
import type { Balancer } from "./balancer.ts";

/** An app whose runs take a moment and fail as often as they are asked to. */
export const QUEUE_APP = {
  "main.py": `
import time
import millrace

def run(n, ms, fails):
    time.sleep(ms / 1000)
    if millrace.run.attempt <= fails:
        raise ConnectionError("attempt %d of %d" % (millrace.run.attempt, fails))
    return {"n": n}
`,
  "millrace.toml": `
[scaling]
min_replicas = 1
max_replicas = 2
replica_concurrency = 4

[retry]
max_attempts = 20
on = ["crash", "ConnectionError"]
initial_delay = "200ms"
max_delay = "1s"

[queue]
concurrency_limit = 5
concurrency_key_limit = 1
`,
};
export const QUEUE_APPS = ["queue-1", "queue-2", "queue-3"] as const;
/** What the app's configuration allows, for the judge. */
export const QUEUE_LIMITS = { running: 5, runningOfKey: 1, attempts: 20 };

const RUN_MS = 40;
const KEYS = ["a", "b", "c"] as const;
const PRIORITIES = ["low", "normal", "normal", "high", "45"] as const;
/** Tries of a run that never succeeds. */
const DOOMED_TRIES = 2;
const DOOMED_FAILS = 1_000;
const MOST_DELAY_MS = 3_000;
/** What one caller keeps waiting in each app, in portions; the others have one run at a time. */
const FLOOD = 150;
const PORTION = 30;
const FEW_CALLERS = 3;
const REST_MS = 400;
const AGAIN_MS = 100;

/** A run that was asked for until some node accepted it: there must be exactly one. */
export type Wanted = { readonly app: string; readonly n: number; readonly isDoomed: boolean };

type LoadParts = { readonly cluster: Cluster; readonly balancer: Balancer; readonly roll: Roll };

/** Callers of async runs in lines of their own: one has far more than it can have at once, the others few. */
export class QueueLoad {
  /** By the id of the run. */
  readonly wanted = new Map<string, Wanted>();
  readonly #parts: LoadParts;
  #isOver = false;
  #isGivenUp = false;
  #n = 0;
  #all: Promise<unknown> = Promise.resolve();

  constructor(parts: LoadParts) {
    this.#parts = parts;
  }

  start(): void {
    const few = Array.from({ length: FEW_CALLERS }, (_, i) => this.#again(() => this.#few(`few-${i}`)));
    const floods = QUEUE_APPS.map((app) => this.#again(() => this.#flood(app)));
    this.#all = Promise.all([...few, ...floods]);
  }

  /** No more runs; resolves when each that was begun is accepted. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#all;
  }

  /** Leaves even those that no node has accepted. */
  async giveUp(): Promise<void> {
    this.#isGivenUp = true;
    await this.stop();
  }

  async #again(act: () => Promise<void>): Promise<void> {
    while (!this.#isOver) await act();
  }

  async #few(line: string): Promise<void> {
    const { roll } = this.#parts;
    await this.#submit(QUEUE_APPS[Math.floor(roll(QUEUE_APPS.length))]!, line);
    await pause(roll(REST_MS));
  }

  async #flood(app: (typeof QUEUE_APPS)[number]): Promise<void> {
    if ((await this.#waiting(app)) < FLOOD)
      await Promise.all(Array.from({ length: PORTION }, () => this.#submit(app, "flood")));
    await pause(AGAIN_MS);
  }

  /** How many runs of an app have not ended; as many as there may be while the database does not answer. */
  async #waiting(app: string): Promise<number> {
    try {
      const { rows } = await this.#parts.cluster.database.query<{ count: string }>(
        `select count(*) from runs join apps on apps.number = runs.app_number where apps.name = $1 and runs.state in (0, 1)`,
        [app],
      );
      return Number(rows[0]?.count);
    } catch {
      return FLOOD;
    }
  }

  async #submit(app: string, line: string): Promise<void> {
    const { balancer, cluster, roll } = this.#parts;
    const n = (this.#n += 1);
    const isDoomed = roll(20) < 1;
    const fails = isDoomed ? DOOMED_FAILS : roll(5) < 1 ? 1 + Math.floor(roll(2)) : 0;
    const asked = new URLSearchParams({
      async: "true",
      tag: line,
      priority: PRIORITIES[Math.floor(roll(PRIORITIES.length))]!,
      ...(roll(2) < 1 && { concurrency_key: KEYS[Math.floor(roll(KEYS.length))]! }),
      ...(roll(8) < 1 && { delay: `${Math.ceil(roll(MOST_DELAY_MS))}ms` }),
      ...(isDoomed && { max_attempts: String(DOOMED_TRIES) }),
    });
    const ask = {
      of: "api" as const,
      path: `/v4/${cluster.projectId}/${app}/run?${asked.toString()}`,
      method: "POST",
      headers: {
        "content-type": "application/json",
        "idempotency-key": `wanted-${n}`,
        "x-millrace-fairness-key": line,
      },
      body: JSON.stringify({ n, ms: Math.round(roll(RUN_MS)), fails }),
    };
    while (!this.#isGivenUp) {
      const { status, text, failure } = await balancer.send(ask);
      if (failure === null && status === 202) {
        this.wanted.set((JSON.parse(text) as { run_id: string }).run_id, { app, n, isDoomed });
        return;
      }
      // The node died, the database is away, or an earlier try is under way: the same call, until it is certain.
      await pause(AGAIN_MS);
    }
  }
}
