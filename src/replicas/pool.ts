import { Condition } from "../kit/concurrency.ts";
import type { Clock } from "../kit/clock.ts";
import { type InitFailure, lackOfGpu } from "../engines/engine.ts";
import { type FleetCounts, type FleetEvents, type FleetReplica, newFleetCounts } from "./fleet-events.ts";
import type { FunctionSignature } from "../model/app.ts";
import type { Home } from "../engines/home.ts";
import type { PrintedLine } from "../engines/log-lines.ts";
import type { Seats } from "./seats.ts";
import type { AppConfig } from "../model/app-config.ts";
import type { Outcome } from "../model/outcome.ts";
import type { Call } from "./call.ts";
import { Fleet } from "./fleet.ts";
import { functionReplicas } from "./replica.ts";
import { serverReplicas } from "./server/server-replica.ts";
import { Slots } from "./slots/slots.ts";

export type PoolParts = {
  /** Where its replicas start. */
  readonly seats: Pick<Seats, "start" | "serve" | "close">;
  readonly home: Home;
  readonly clock: Clock;
  readonly events: PoolEvents;
  /** The counts of earlier versions of the app. */
  readonly counts?: FleetCounts;
  /** The app's owner: the output of all apps of one owner shares one turn. */
  readonly owner?: string;
};

export type PoolLogLine = PrintedLine & { readonly replicaId: string };

export type PoolEvents = Pick<FleetEvents<Call, PoolReplica>, "onReplicaGone" | "onError"> & {
  onLog(line: PoolLogLine): void;
  /** The first replica has reported the functions of `main.py`. */
  onFunctions(functions: readonly FunctionSignature[]): void;
};

/** What is not stored of a run with a waiting caller. */
type HiddenPayloads = { readonly input: boolean; readonly result: boolean };

/** Where a run goes: to the replicas of a version. */
export type RunTarget = {
  readonly projectId: string;
  readonly appName: string;
  readonly appNumber: number;
  readonly versionId: string;
  readonly slots: Pick<Slots<Call>, "submit" | "abandon" | "backlogRoom" | "outlook">;
  readonly config: AppConfig;
  readonly hidden: HiddenPayloads;
};

export type PoolReplica = FleetReplica<Call>;

/** The replicas of a version, and the slots in which they take calls. */
export class Pool {
  /** The functions of `main.py`; null until a replica has sent HELLO. */
  functions: ReadonlyMap<string, FunctionSignature> | null = null;
  readonly slots: Slots<Call>;
  readonly counts: FleetCounts;
  readonly fleet: Fleet<Call, PoolReplica>;
  readonly #clock: Clock;
  readonly #events: PoolEvents;
  /** A replica is ready, or none can be. */
  readonly #starts = new Condition();
  readonly #maxQueueMs: number;

  constructor(config: AppConfig, parts: PoolParts) {
    const { clock, events, counts = newFleetCounts() } = parts;
    const { customRuntime } = config;
    this.#clock = clock;
    this.#maxQueueMs = config.scaling.maxQueueSeconds * 1000;
    this.counts = counts;
    this.#events = events;
    this.fleet = new Fleet<Call, PoolReplica>(config.scaling, {
      source: customRuntime ? serverReplicas(config, customRuntime, parts) : functionReplicas(config, parts),
      clock,
      counts,
      allowance: config.hardware,
      events: {
        demand: () => slots.demand(),
        onReady: (functions) => this.#onReady(functions),
        onOutcome: (call, outcome) => slots.onOutcome(call, this.#withFunctions(outcome)),
        onReturned: (calls) => slots.takeBack(calls),
        onInitFailure: (failure) => {
          this.#starts.notify();
          slots.refuseWaiting(failure);
        },
        onAwake: () => slots.handOver(),
        onReplicaGone: (replicaId, exit) => events.onReplicaGone(replicaId, exit),
        onLog: (replica, line) => this.#onLog(replica, line),
        onError: (error) => events.onError(error),
      },
    });
    const slots = new Slots(config.scaling, this.fleet, clock, {
      mayHandAhead: customRuntime === null,
      batching: config.batching,
      onBatch: (functionName, calls, reason) => counts.batches.add(functionName, calls, reason),
    });
    this.slots = slots;
    this.fleet.scale();
  }

  get replicas(): ReadonlySet<PoolReplica> {
    return this.fleet.replicas;
  }

  /** Whether the latest start failed, and the next attempt has to wait. */
  get isHeldBack(): boolean {
    return this.fleet.failure(this.#clock.monotonic()) !== null;
  }

  /** The replicas that take calls now. */
  get readyCount(): number {
    return this.fleet.ready.length;
  }

  /**
   * Waits until that many replicas are ready, or the others have waited too long for a GPU, or the signal aborts; returns why
   * if the app cannot start.
   */
  async started(count: number, signal: AbortSignal): Promise<InitFailure | null> {
    let isLate = false;
    const late = this.#clock.every(this.#maxQueueMs, () => {
      isLate = true;
      this.#starts.notify();
    });
    try {
      while (this.readyCount < count && !signal.aborted && !this.slots.isClosing) {
        const doomed = this.fleet.failure(this.#clock.monotonic());
        if (doomed) return doomed.failure;
        // Nothing else limits how long a start may wait for a GPU.
        const obstacle = isLate ? this.fleet.gpuObstacle() : null;
        if (obstacle !== null) return this.readyCount > 0 ? null : lackOfGpu(obstacle);
        await this.#starts.wait(signal);
      }
      return null;
    } finally {
      late.cancel();
    }
  }

  /** Ends every replica after its calls, WebSockets at once; other calls wait until `fleet.occupy`. */
  async vacate(signal: AbortSignal): Promise<void> {
    for (const { calls } of this.replicas)
      for (const call of calls.values()) if (call.isEndless) call.farewell();
    await this.fleet.vacate(signal);
  }

  async close(outcome: Outcome): Promise<void> {
    const closed = this.slots.close(outcome);
    this.#starts.notify();
    await closed;
  }

  #onReady(functions: readonly FunctionSignature[]): void {
    if (!this.functions) this.#events.onFunctions(functions);
    // The earlier ones may be in use: equal ones are not kept twice.
    if (!this.functions || JSON.stringify(functions) !== JSON.stringify([...this.functions.values()]))
      this.functions = new Map(functions.map((signature) => [signature.name, signature]));
    this.#starts.notify();
    this.slots.handOver();
  }

  /** Tells a caller who misspelled a function the existing ones. */
  #withFunctions(outcome: Outcome): Outcome {
    if (outcome.kind !== "no_function" || !this.functions) return outcome;
    return { ...outcome, functions: [...this.functions.keys()] };
  }

  #onLog(replica: PoolReplica, line: PrintedLine): void {
    // Output to a raw descriptor has no tag; if a single call is running, it belongs to that call.
    const [only] = line.runId === null && replica.calls.size === 1 ? replica.calls.values() : [];
    this.#events.onLog({ ...line, replicaId: replica.id, runId: line.runId ?? only?.runId ?? null });
  }
}
