import { readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { KillableService } from "../support/killable-service.ts";
import type { Roll } from "../support/dice.ts";
import type { PostgresServer } from "../support/postgres-server.ts";
import { childrenOf, isAlive } from "../support/process-tree.ts";
import { until } from "../support/until.ts";
import type { WebhookTarget } from "../support/webhook-target.ts";
import type { Callers } from "./callers.ts";
import type { Turmoil } from "./turmoil.ts";

/** From the end of one fault to the next, in seconds: time enough for calls that meet none. */
const GAP_SECONDS = { least: 6, most: 20 };
/** How long webhooks' target is away, and Postgres frozen, at most. */
const AWAY_MS = 3_000;

type Parts = {
  readonly service: KillableService;
  readonly callers: Callers;
  readonly target: WebhookTarget;
  readonly postgres: PostgresServer | null;
  readonly turmoil: Turmoil;
  readonly roll: Roll;
};

/** Does one fault after the other, by chance, until it is told to stop. */
export class Faults {
  readonly #parts: Parts;
  readonly #stop = new AbortController();
  readonly #done: Promise<void>;
  /** When the service was started last, on this process's steady clock. */
  startedAt = performance.now();

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#done = this.#run();
  }

  /** Resolves when the fault that is under way is over. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#done;
  }

  async #run(): Promise<void> {
    const { roll, turmoil, callers } = this.#parts;
    const { signal } = this.#stop;
    for (;;) {
      const gap = GAP_SECONDS.least + roll(GAP_SECONDS.most - GAP_SECONDS.least);
      await sleep(gap * 1_000, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      const kinds = this.#kinds();
      const weights = kinds.reduce((sum, { weight }) => sum + weight, 0);
      let left = roll(weights);
      const chosen = kinds.find(({ weight }) => (left -= weight) < 0) ?? kinds[0]!;
      await turmoil.during(chosen.name, async () => {
        await chosen.act();
        // It is over when calls are answered again.
        await until("a call is answered after a fault", () => callers.probe());
      });
    }
  }

  #kinds(): { name: string; weight: number; act: () => Promise<void> }[] {
    const { callers, target, postgres, roll, service } = this.#parts;
    const kinds = [
      { name: "process killed", weight: 4, act: () => this.#killProcess() },
      { name: "replica stopped", weight: 2, act: () => this.#stopReplica() },
      { name: "callers dropped", weight: 4, act: async () => callers.drop() },
      { name: "service killed", weight: 1.5, act: () => this.#restart(() => service.kill()) },
      { name: "service restarted", weight: 0.5, act: () => this.#restart(() => service.stop()) },
      {
        name: "webhooks' target away",
        weight: 1,
        act: async () => {
          await target.down();
          await sleep(roll(AWAY_MS));
          await target.up();
        },
      },
    ];
    if (!postgres) return kinds;
    const freeze = async (): Promise<void> => {
      postgres.freeze(true);
      await sleep(roll(AWAY_MS));
      postgres.freeze(false);
    };
    return [...kinds, { name: "Postgres frozen", weight: 2, act: freeze }];
  }

  async #restart(end: () => Promise<void>): Promise<void> {
    await end();
    if (!(await this.#parts.service.start())) throw new Error("the service did not start again");
    this.startedAt = performance.now();
  }

  /** A replica, a keeper or a template, whichever it meets. */
  async #killProcess(): Promise<void> {
    const pid = this.#pick(below(this.#parts.service.command.pid));
    if (pid === null) return;
    process.kill(pid, "SIGKILL");
    await until("the killed one is dead", () => !isAlive(pid));
  }

  /** The service has to find out by itself. One that is only starting has the time that its app may take for that. */
  async #stopReplica(): Promise<void> {
    const pid = this.#pick(below(this.#parts.service.command.pid).filter(isReplica));
    if (pid === null) return;
    process.kill(pid, "SIGSTOP");
    await until("the stopped one is ended", () => !isAlive(pid));
  }

  #pick(pids: readonly number[]): number | null {
    const pid = pids[Math.floor(this.#parts.roll(pids.length))];
    return pid !== undefined && isAlive(pid) ? pid : null;
  }
}

/** All processes below one that its apps run in. */
function below(pid: number): number[] {
  return childrenOf(pid).flatMap((child) => [child, ...below(child)]);
}

/** Of the processes of an app only a replica has threads. */
function isReplica(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).length > 1;
  } catch {
    return false; // It has ended.
  }
}
