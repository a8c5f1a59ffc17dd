import type { BatchingConfig, ScalingConfig } from "../../../../src/model/app-config.ts";
import type { Fairness } from "../../../../src/model/queue-limits.ts";
import type { Outcome } from "../../../../src/model/outcome.ts";
import type { BatchReason } from "../../../../src/model/run.ts";
import type { Batch } from "../../../../src/replicas/slots/batch.ts";
import type { Capacity, Lane, SlotCall, SlotReplica } from "../../../../src/replicas/slots/capacity.ts";
import { Slots } from "../../../../src/replicas/slots/slots.ts";
import { HandClock } from "../../../support/clocks.ts";
import { sampleScaling } from "../sample-scaling.ts";

export const BATCHING: BatchingConfig = {
  maxSize: 64,
  maxWaitSeconds: 0.01,
  key: null,
  size: null,
  targetLatencySeconds: null,
  onError: "split",
  stepper: null,
};

/** A call of the function `run`, unless it is said otherwise. */
export class PlayedCall implements SlotCall {
  readonly lane: Lane;
  readonly functionName: string;
  readonly fairness: Fairness | null;
  readonly body: Buffer;
  holder: object | null = null;
  hasEnded = false;
  isCancelled = false;
  isEndless = false;
  enqueuedAt = 0;
  handedAt = 0;
  readyMsAtStart = 0;
  coldMs = 0;
  setupMs = 0;
  group: object | null = null;
  limitMs = 0;
  size = 1;
  batch: Batch | null = null;
  isStepped = false;
  isAlone = false;
  mayRunAgain = true;
  /** How it ended, and how often a replica got it. */
  outcome: Outcome | null = null;
  handed = 0;
  readonly #onEnd: (call: PlayedCall) => void;

  constructor(
    onEnd: (call: PlayedCall) => void,
    {
      lane = "caller",
      functionName = "run",
      caller = null,
      fields = {},
      body = JSON.stringify(fields),
    }: PlayedFields = {},
  ) {
    this.fairness = caller === null ? null : { key: caller, weight: 1 };
    this.lane = lane;
    this.functionName = functionName;
    this.body = typeof body === "string" ? Buffer.from(body) : body;
    this.#onEnd = onEnd;
  }

  farewell(): void {}

  end(outcome: Outcome): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.outcome = outcome;
    this.#onEnd(this);
  }
}

export type PlayedFields = {
  readonly lane?: Lane;
  readonly functionName?: string;
  /** In whose line it waits. */
  readonly caller?: string | null;
  readonly fields?: Readonly<Record<string, unknown>>;
  /** Its arguments as they are sent, in place of `fields`. */
  readonly body?: string | Buffer;
};

/** Calls that were handed over together. */
export type Execution = {
  readonly calls: readonly PlayedCall[];
  readonly reason: BatchReason | null;
  /** One of them had to run alone by then: a crash may say so of any call later. */
  readonly hasLoner: boolean;
};

/** Replicas that run for as long as a test says, and slots for them. */
export class BatchWorld {
  readonly clock = new HandClock(0);
  readonly slots: Slots<PlayedCall>;
  /** Every execution, in order. */
  readonly executions: Execution[] = [];
  readonly replicas: PlayedReplica[];
  onEnd: (call: PlayedCall) => void = () => {};

  constructor(
    batching: Readonly<Record<string, Partial<BatchingConfig>>>,
    scaling: Partial<ScalingConfig> = {},
    replicas = 1,
  ) {
    this.replicas = Array.from({ length: replicas }, () => new PlayedReplica(this));
    const capacity: Capacity<PlayedCall> = {
      replicas: new Set(this.replicas),
      ready: this.replicas,
      awake: this.replicas,
      readyClock: { elapsed: (now) => now },
      startPhase: null,
      setScaling: () => {},
      holdMs: () => 0,
      failure: () => null,
      waitsForGpu: false,
      gpuObstacle: () => null,
      scale: () => {},
      grow: () => {},
      noteIdle: () => {},
      noteHealth: () => {},
      retire: () => {},
      drain: async () => {},
      close: async () => {},
    };
    const rules = Object.entries(batching).map(([name, some]) => [name, { ...BATCHING, ...some }]);
    this.slots = new Slots(sampleScaling({ maxQueue: 100_000, ...scaling }), capacity, this.clock, {
      mayHandAhead: true,
      batching: Object.fromEntries(rules) as Record<string, BatchingConfig>,
    });
  }

  submit(played: PlayedFields = {}): PlayedCall {
    const call = new PlayedCall((each) => this.onEnd(each), played);
    this.slots.submit(call);
    return call;
  }
}

const RETURNED: Outcome = { kind: "returned", json: Buffer.from("1"), status: 200, runMs: 1 };

class PlayedReplica implements SlotReplica<PlayedCall> {
  readonly setupMs = null;
  readonly held = new Set<PlayedCall>();
  busy = 0;
  headSince = 0;
  isCondemned = false;
  readonly isWorn = false;
  /** Milliseconds that an execution of so many calls of a function takes; null: until a test ends it. */
  takesMs: ((calls: number, functionName: string) => number) | null = null;
  /** It hears of no cancel, since its code lets no other thread run. */
  isDeaf = false;
  /** How many calls its steppers take; null before it has told. */
  steppers: Readonly<Record<string, number>> | null = null;
  readonly #world: BatchWorld;

  constructor(world: BatchWorld) {
    this.#world = world;
  }

  get calls() {
    return {
      size: this.held.size,
      values: () => this.held,
      holds: (call: PlayedCall) => this.held.has(call),
    };
  }

  stepper(functionName: string): { room: number; held: number; capacity: number } {
    const capacity = this.steppers?.[functionName] ?? 0;
    const held = [...this.held].filter((call) => call.functionName === functionName).length;
    return { room: Math.max(0, capacity - held), held, capacity };
  }

  hand(call: PlayedCall, now: number): void {
    this.handBatch([call], now);
    if (call.isStepped) this.busy -= 1;
  }

  handBatch(calls: readonly PlayedCall[], now: number): void {
    this.busy += 1;
    for (const call of calls) {
      call.holder = this;
      call.handedAt = now;
      call.handed += 1;
      this.held.add(call);
      if (call.batch) call.batch.held += 1;
    }
    const hasLoner = calls.some(({ isAlone }) => isAlone);
    this.#world.executions.push({ calls, reason: calls[0]?.batch?.reason ?? null, hasLoner });
    if (this.takesMs)
      this.#world.clock.after(this.takesMs(calls.length, calls[0]?.functionName ?? ""), () => {
        for (const call of calls) this.finish(call);
      });
  }

  /** A call is over. */
  finish(call: PlayedCall, outcome: Outcome = RETURNED): void {
    if (!this.held.has(call)) return;
    this.#release(call);
    this.#world.slots.onOutcome(call, outcome);
  }

  /** It never began these calls. */
  giveBack(calls: readonly PlayedCall[]): void {
    for (const call of calls) this.#release(call);
    this.#world.slots.takeBack(calls);
  }

  /** Its process ends, with all that it holds. */
  die(): void {
    const lost = [...this.held];
    for (const call of lost) this.#release(call);
    for (const call of lost) this.#world.slots.onOutcome(call, { kind: "died", detail: "exit code 1" });
  }

  withdraw(): void {}
  cancel(call: PlayedCall): void {
    if (this.isDeaf) return;
    // The last one's code has to stop first: a test ends it.
    const isLast = call.batch === null || call.batch.held === 1;
    if (!isLast) this.finish(call, { kind: "cancelled" });
  }
  kill(): void {
    this.die();
  }

  #release(call: PlayedCall): void {
    this.held.delete(call);
    if (call.batch === null || --call.batch.held === 0) this.busy -= 1;
  }
}
