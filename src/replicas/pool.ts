import { Bell } from "../kit/bell.ts";
import type { Clock } from "../kit/clock.ts";
import type { FunctionSignature } from "../model/app.ts";
import type { AppConfig, ScalingConfig } from "../model/app-config.ts";
import type { Outcome, Refused } from "../model/outcome.ts";
import { Balancer } from "./balance.ts";
import type { Call, Lane } from "./call.ts";
import type { InitFailure } from "./engine.ts";
import { newFleetCounts } from "./fleet-counts.ts";
import type { FleetCounts } from "./fleet-counts.ts";
import { Fleet } from "./fleet.ts";
import type { FleetEvents } from "./fleet.ts";
import { Lanes } from "./lanes.ts";
import type { LogLine } from "./log-lines.ts";
import { overload } from "./overload.ts";
import { Pace } from "./pace.ts";
import type { PoolEvents, PoolParts } from "./pool-events.ts";
import type { Replica } from "./replica.ts";
import { growsEarly } from "./scale.ts";
import { Watch } from "./watch.ts";

/** A head that takes longer than this gives back what was handed ahead. */
const SLOW_HEAD_MS = 5;
/** How long a cancelled call's code may go on before its replica is killed. */
const CANCEL_GRACE_MS = 5_000;
/** The backlog is fetched from a database: with so much work at hand no slot waits for that. */
const BACKLOG_AHEAD_MS = 20;
const MAX_BACKLOG_AHEAD = 512;
const DRAINING: Refused = { kind: "refused", code: "draining" };

/**
 * The way of calls to a version's replicas: admission, two lanes that wait, hand-over, time limits. Callers are
 * bounded by the app's queue limits; the backlog waits in the store, and comes here as there is room.
 */
export class Pool {
  /** What `main.py` offers; null until a replica has said hello. */
  functions: ReadonlyMap<string, FunctionSignature> | null = null;
  /** Another version has taken its place: if it cannot start, its backlog has somewhere else to go. */
  isRetired = false;
  readonly counts: FleetCounts;
  readonly #clock: Clock;
  #scaling: ScalingConfig;
  #growsEarly: boolean;
  readonly #events: PoolEvents;
  readonly #fleet: Fleet;
  readonly #lanes = new Lanes();
  readonly #balancer: Balancer;
  readonly #pace = new Pace();
  readonly #watch: Watch;
  /** Resolves when the last waiting call has left a pool that takes no more. */
  readonly #noneWaits = Promise.withResolvers<void>();
  /** A replica is ready, or none can be. */
  readonly #starts = new Bell();
  /** Backlog calls in replicas' hands. */
  #backlogInHand = 0;
  #isDraining = false;
  /** The replicas are ending: a call that comes back finds no other. */
  #isClosing = false;

  constructor(config: AppConfig, parts: PoolParts) {
    const { seats, home, clock, events, counts = newFleetCounts(), owner = "" } = parts;
    this.#clock = clock;
    this.#watch = new Watch(clock, () => this.#look());
    this.counts = counts;
    this.#scaling = config.scaling;
    this.#growsEarly = growsEarly(config.scaling);
    this.#events = events;
    this.#balancer = new Balancer(this.#scaling.loadBalancingAlgorithm);
    const fleetEvents: FleetEvents = {
      load: (now) => ({ calls: this.#load(), callsPerSecond: this.#watch.rate(now) }),
      onReady: (functions) => this.#onReady(functions),
      onOutcome: (call, outcome) => this.#onOutcome(call, outcome),
      onReturned: (calls) => this.#takeBack(calls),
      onInitFailure: (failure) => this.#refuseWaiting(failure),
      onAwake: () => this.#handOver(),
      onReplicaGone: (replicaId, exit) => events.onReplicaGone(replicaId, exit),
      onLog: (replica, line) => this.#onLog(replica, line),
      onError: (error) => events.onError(error),
    };
    this.#fleet = new Fleet(config, { seats, home, clock, counts, owner, events: fleetEvents });
    this.#fleet.scale();
  }

  get replicas(): ReadonlySet<Replica> {
    return this.#fleet.replicas;
  }

  /** Calls of both lanes that no replica holds. */
  get waiting(): number {
    return this.#lanes.size;
  }

  /** How long the caller at the head of the queue has waited, in milliseconds; 0 when none waits. */
  get oldestWaitMs(): number {
    const first = this.#lanes.callers.peek();
    return first ? this.#clock.monotonic() - first.enqueuedAt : 0;
  }

  /** How many more backlog calls it would take now: a call for each slot, and some ahead while they are short. */
  get backlogRoom(): number {
    if (this.#isDraining || this.#fleet.holdMs(this.#clock.monotonic()) > 0) return 0;
    const slots = this.#scaling.maxReplicas * this.#scaling.replicaConcurrency;
    const ahead = Math.floor(slots * this.#pace.callsIn(BACKLOG_AHEAD_MS));
    const held = this.#lanes.backlog.size + this.#backlogInHand;
    return Math.max(0, slots + Math.min(MAX_BACKLOG_AHEAD, ahead) - held);
  }

  /** Whether the app could not start when it was last tried, and is not tried again yet. */
  get hasFailedToStart(): boolean {
    return this.#fleet.failure(this.#clock.monotonic()) !== null;
  }

  /** The replicas that take calls now. */
  get readyCount(): number {
    return this.#fleet.ready.length;
  }

  /**
   * Other limits from now on, for calls that run too. Not how many calls a replica takes at once: that is what
   * its process was started with.
   */
  setScaling(scaling: ScalingConfig): void {
    this.#scaling = scaling;
    this.#growsEarly = growsEarly(scaling);
    this.#fleet.setScaling(scaling);
  }

  /** Waits until so many replicas are ready or the signal says stop; gives why there is none if it cannot start. */
  async started(count: number, signal: AbortSignal): Promise<InitFailure | null> {
    while (this.readyCount < count && !signal.aborted && !this.#isClosing) {
      const doomed = this.#fleet.failure(this.#clock.monotonic());
      if (doomed) return doomed.failure;
      await this.#starts.wait(signal);
    }
    return null;
  }

  /** Takes a call: at once to a free replica, else into its lane; a refusal is an outcome too. */
  submit(call: Call): void {
    const now = this.#clock.monotonic();
    call.enqueuedAt = now;
    const refusal = this.#refusal(call, now);
    if (refusal) {
      call.end(refusal);
      return;
    }
    call.readyMsAtStart = this.#fleet.readyClock.elapsed(now);
    const replica = this.#lanes.size === 0 ? this.#free() : null;
    if (replica) this.#hand(replica, call, now);
    else this.#lanes.push(call);
    const isFull = !replica || replica.calls.size > this.#scaling.replicaConcurrency;
    if (isFull || this.#growsEarly) this.#fleet.grow();
    this.#watch.wake();
  }

  /**
   * Ends a call before its time: the reader gets `outcome` now, the code is stopped, and the slot is free
   * when it has really stopped.
   */
  abandon(call: Call, outcome: Outcome): void {
    if (call.isCancelled || call.hasEnded) return;
    call.isCancelled = true;
    const replica = call.holder as Replica | null;
    if (replica) {
      replica.cancel(call);
      this.#clock.after(CANCEL_GRACE_MS, () => this.#insist(replica, call));
    } else {
      this.#lanes.remove(call);
    }
    call.end(outcome);
  }

  /**
   * No new calls; resolves when those taken have ended and the replicas are gone. Waiting callers are served;
   * a backlog that waits is refused now, so that it can wait elsewhere.
   */
  async drain(): Promise<void> {
    this.#isDraining = true;
    for (const call of this.#lanes.backlog.takeAll()) call.end(DRAINING);
    if (this.#lanes.size > 0) await this.#noneWaits.promise;
    this.#isClosing = true;
    await this.#fleet.drain();
    this.#watch.stop();
  }

  /** Ends everything now; what still runs gets `outcome`. */
  async close(outcome: Outcome): Promise<void> {
    this.#isDraining = true;
    this.#isClosing = true;
    this.#watch.stop();
    for (const replica of this.replicas) for (const call of replica.calls.values()) call.end(outcome);
    for (const call of this.#lanes.takeAll()) call.end(outcome);
    this.#noneWaits.resolve();
    this.#starts.ring();
    await this.#fleet.close();
  }

  #load(): number {
    let calls = this.#lanes.size;
    for (const replica of this.replicas) calls += replica.calls.size;
    return calls;
  }

  #refusal({ lane }: Call, now: number): Refused | null {
    if (this.#isDraining) return DRAINING;
    const doomed = this.#fleet.failure(now);
    if (doomed) return this.#unready(lane, doomed.failure, Math.ceil(doomed.waitMs / 1000));
    const isFull = lane === "caller" && this.#lanes.callers.size >= this.#scaling.maxQueue;
    return isFull ? this.#overload("queue_full") : null;
  }

  #overload(code: "queue_full" | "queue_timeout"): Refused {
    const slots = Math.max(1, this.#fleet.ready.length) * this.#scaling.replicaConcurrency;
    return overload(code, { waiting: this.#lanes.callers.size, slots, meanMs: this.#pace.meanMs });
  }

  /** A replica with a free slot; while the app is fast and all are busy, a place ahead in one's hands. */
  #free(): Replica | null {
    const slots = this.#scaling.replicaConcurrency;
    const free = this.#balancer.choose(this.#fleet.awake, slots);
    if (free) return free;
    const ahead = this.#pace.ahead;
    return ahead > 0 ? this.#balancer.choose(this.#fleet.awake, slots + ahead) : null;
  }

  #hand(replica: Replica, call: Call, now: number): void {
    const readyMs = this.#fleet.readyClock.elapsed(now) - call.readyMsAtStart;
    call.coldMs = now - call.enqueuedAt - readyMs;
    if (call.lane === "backlog") this.#backlogInHand += 1;
    replica.hand(call, now);
    if (replica.isWorn) this.#fleet.retire(replica);
  }

  #handOver(): void {
    const now = this.#clock.monotonic();
    while (this.#lanes.size > 0) {
      const replica = this.#free();
      const call = replica && this.#lanes.shift();
      if (!call) return;
      this.#hand(replica, call, now);
    }
  }

  #onReady(functions: readonly FunctionSignature[]): void {
    if (!this.functions) this.#events.onFunctions(functions);
    // Those of before may be in use elsewhere: equal ones are not kept twice.
    if (JSON.stringify(functions) !== JSON.stringify([...(this.functions?.values() ?? [])]))
      this.functions = new Map(functions.map((signature) => [signature.name, signature]));
    this.#starts.ring();
    this.#handOver();
  }

  /** The next call is handed over before this one is answered: the replica does not wait for the answer. */
  #onOutcome(call: Call, outcome: Outcome): void {
    if (call.lane === "backlog") this.#backlogInHand -= 1;
    if ("runMs" in outcome) {
      this.#pace.add(outcome.runMs);
      this.#fleet.noteHealth();
    }
    if (this.#lanes.size > 0) this.#handOver();
    else this.#fleet.noteIdle();
    call.end(outcome);
  }

  /** Calls that never began wait again, in their old place. */
  #takeBack(calls: readonly Call[]): void {
    const waiting: Call[] = [];
    for (const call of calls) {
      if (call.lane === "backlog") this.#backlogInHand -= 1;
      if (call.hasEnded) continue;
      call.holder = null;
      call.wireId = 0;
      if (this.#isClosing || (this.#isDraining && call.lane === "backlog")) call.end(DRAINING);
      else waiting.push(call);
    }
    if (this.#isClosing) return;
    this.#lanes.putBack(waiting);
    this.#handOver();
    this.#fleet.scale();
  }

  #unready(lane: Lane, { message }: InitFailure, retryAfterSeconds?: number): Refused {
    if (this.isRetired && lane === "backlog") return DRAINING;
    const refusal = { kind: "refused", code: "app_not_ready", message } as const;
    return retryAfterSeconds === undefined ? refusal : { ...refusal, retryAfterSeconds };
  }

  #refuseWaiting(failure: InitFailure): void {
    this.#starts.ring();
    for (const call of this.#lanes.takeAll()) call.end(this.#unready(call.lane, failure));
  }

  #onLog(replica: Replica, line: LogLine): void {
    // Raw descriptor output carries no tag; with one call in hand it can only be that one's.
    const [only] = line.runId === null && replica.calls.size === 1 ? replica.calls.values() : [];
    this.#events.onLog({ ...line, replicaId: replica.id, runId: line.runId ?? only?.runId ?? null });
  }

  /** A cancelled call's code goes on: its replica has to go, after its other calls. */
  #insist(replica: Replica, call: Call): void {
    if (replica.calls.get(call.wireId) !== call) return;
    replica.isCondemned = true;
    const others = [...replica.calls.values()].some((other) => !other.hasEnded);
    if (!others || this.#scaling.replicaConcurrency === 1) {
      replica.kill();
      return;
    }
    this.#fleet.retire(replica);
    this.#clock.after(50, () => this.#insist(replica, call));
  }

  /** Every few milliseconds while there are calls: what has waited, run or blocked too long. */
  #look(): boolean {
    const now = this.#clock.monotonic();
    const graceMs = this.#scaling.responseGracePeriodSeconds * 1000;
    for (const replica of this.replicas) {
      for (const call of replica.calls.values()) {
        if (now - call.handedAt < graceMs) break; // Oldest first: the rest is younger.
        this.abandon(call, { kind: "timed_out", afterMs: graceMs });
      }
      const isAhead = replica.calls.size > this.#scaling.replicaConcurrency;
      if (isAhead && now - replica.headSince > SLOW_HEAD_MS) this.#unblock(replica, now);
    }
    const maxWaitMs = this.#scaling.maxQueueSeconds * 1000;
    const { callers } = this.#lanes;
    for (let call = callers.peek(); call; call = callers.peek()) {
      if (this.#fleet.readyClock.elapsed(now) - call.readyMsAtStart < maxWaitMs) break;
      callers.shift();
      call.end(this.#overload("queue_timeout"));
    }
    if (this.#isDraining && this.#lanes.size === 0) this.#noneWaits.resolve();
    return this.#load() > 0;
  }

  /** The call at the head turned out slow: what was handed ahead of its turn goes back to the queue. */
  #unblock(replica: Replica, now: number): void {
    this.#pace.add(now - replica.headSince);
    replica.headSince = Number.POSITIVE_INFINITY; // Once per head.
    let place = 0;
    for (const call of replica.calls.values()) {
      place += 1;
      // A pool that closes has no queue left for a caller; one from the backlog waits elsewhere.
      const mayLeave = !this.#isClosing || call.lane === "backlog";
      if (place > this.#scaling.replicaConcurrency && mayLeave) replica.withdraw(call);
    }
  }
}
