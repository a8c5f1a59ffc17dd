import type { Clock, Timer } from "../../kit/clock.ts";
import type { BatchingConfig, ScalingConfig } from "../../model/app-config.ts";
import type { Outcome, Refused } from "../../model/outcome.ts";
import type { BatchReason } from "../../model/run.ts";
import { Balancer } from "./balance.ts";
import type { Capacity, Lane, SlotCall, SlotReplica, StartFailure, StartPhase } from "./capacity.ts";
import { overload, Pace } from "./pace.ts";
import { growsEarly } from "./scale.ts";
import { type Departure, Waiting } from "./waiting.ts";
import { Watch } from "./watch.ts";

/** If the first call takes longer, calls handed ahead are taken back. */
const SLOW_HEAD_MS = 5;
/** How long a cancelled call's code may continue before its replica is killed. */
const CANCEL_GRACE_MS = 5_000;
/** The backlog is fetched from a database; with this much work at hand, no slot waits for it. */
const BACKLOG_AHEAD_MS = 20;
const MAX_BACKLOG_AHEAD = 512;
const DRAINING: Refused = { kind: "refused", code: "draining" };

/** What calls ask for. */
export type Demand = {
  /** Calls in replicas' hands and waiting. */
  readonly calls: number;
  /** How many have arrived so far. */
  readonly arrivals: number;
};

/** What can be told to calls that wait. */
export type SlotsOutlook<C> = {
  /** How far the start of a replica is; null while one is ready, and if none starts. */
  readonly phase: StartPhase | null;
  /** How long a call takes, lately; 0 if unknown. */
  readonly meanRunMs: number;
  /** How many calls of the backlog wait here. */
  readonly backlog: number;
  /** Where those of the asked calls that wait stand in their lanes, from 1. */
  readonly ranks: ReadonlyMap<C, number>;
};

/** What slots are made of, besides the replicas. */
export type SlotOptions = {
  /** Replicas can give back calls, so a busy one may hold more than it runs. */
  readonly mayHandAhead: boolean;
  /** The functions whose calls may share an execution. */
  readonly batching?: Readonly<Record<string, BatchingConfig>> | undefined;
  /** Calls have left together. */
  readonly onBatch?: ((functionName: string, calls: number, reason: BatchReason) => void) | undefined;
};

/**
 * The slots of a version's replicas: admission, two lanes, hand-over, time limits, draining. The app's queue limits apply
 * to callers; the backlog waits in the store until there is room. Replicas decide how a call reaches them.
 */
export class Slots<C extends SlotCall> {
  /** When another version replaced this one; infinity before that. */
  #retiredAt = Number.POSITIVE_INFINITY;
  readonly #clock: Clock;
  #scaling: ScalingConfig;
  #growsEarly: boolean;
  readonly #mayHandAhead: boolean;
  readonly #capacity: Capacity<C>;
  readonly #waiting: Waiting<C>;
  readonly #onBatch: SlotOptions["onBatch"];
  /** Calls that wait for others ask again. */
  #groupTimer: Timer | null = null;
  readonly #balancer: Balancer;
  readonly #pace = new Pace();
  readonly #watch: Watch;
  /** Resolves when draining slots have no waiting call left. */
  readonly #noneWaits = Promise.withResolvers<void>();
  /** Backlog calls that replicas hold. */
  #backlogInHand = 0;
  #isDraining = false;
  /** The replicas are ending and take no more calls: a returned call finds no other. */
  isClosing = false;
  #heir: Slots<C> | null = null;

  constructor(scaling: ScalingConfig, capacity: Capacity<C>, clock: Clock, options: SlotOptions) {
    this.#waiting = new Waiting(options.batching ?? {});
    // A call that was handed ahead could not join others.
    this.#mayHandAhead = options.mayHandAhead && !this.#waiting.hasBatches;
    this.#onBatch = options.onBatch;
    this.#clock = clock;
    this.#watch = new Watch(clock, () => this.#look());
    this.#scaling = scaling;
    this.#growsEarly = growsEarly(scaling);
    this.#balancer = new Balancer(scaling.loadBalancingAlgorithm);
    this.#capacity = capacity;
  }

  /** How many calls of both lanes wait. */
  get waiting(): number {
    return this.#waiting.count("caller") + this.#waiting.count("backlog");
  }

  /** How long the caller at the head of the queue has waited, in milliseconds; 0 when none waits. */
  get oldestWaitMs(): number {
    const first = this.#waiting.oldestCaller();
    return first ? this.#clock.monotonic() - first.enqueuedAt : 0;
  }

  /** How many more backlog calls it takes now: one for each slot, and some ahead if they are short. */
  get backlogRoom(): number {
    if (this.#heir) return this.#heir.backlogRoom;
    if (this.#isDraining || this.#capacity.holdMs(this.#clock.monotonic()) > 0) return 0;
    const slots = this.#scaling.maxReplicas * this.#scaling.replicaConcurrency;
    const ahead = Math.floor(slots * this.#pace.callsIn(BACKLOG_AHEAD_MS));
    const held = this.#waiting.count("backlog") + this.#backlogInHand;
    const most = this.#waiting.hasBatches ? this.#mostTogether(slots) : slots;
    return Math.max(0, most + Math.min(MAX_BACKLOG_AHEAD, ahead) - held);
  }

  /** A batch for each slot, as many calls as the steppers take, and the same once more, to follow them. */
  #mostTogether(slots: number): number {
    let calls = slots * this.#waiting.mostCalls;
    for (const [functionName] of this.#waiting.stepped())
      calls += this.#scaling.maxReplicas * this.#stepperCapacity(functionName);
    return 2 * calls;
  }

  /** How many calls one replica's stepper takes; 0 before a replica has told. */
  #stepperCapacity(functionName: string): number {
    let most = 0;
    for (const replica of this.#capacity.replicas)
      most = Math.max(most, replica.stepper?.(functionName).capacity ?? 0);
    return most;
  }

  /** Looks once at all that wait, however many are asked for. */
  outlook(asked: ReadonlySet<C>): SlotsOutlook<C> {
    if (this.#heir) return this.#heir.outlook(asked);
    return {
      phase: this.#capacity.startPhase,
      meanRunMs: this.#pace.meanMs,
      backlog: this.#waiting.count("backlog"),
      ranks: asked.size === 0 ? new Map<C, number>() : this.#waiting.ranks(asked),
    };
  }

  /** Changes the limits, also for running calls; except a replica's concurrency, which is fixed at its start. */
  setScaling(scaling: ScalingConfig): void {
    this.#scaling = scaling;
    this.#growsEarly = growsEarly(scaling);
    this.#capacity.setScaling(scaling);
  }

  /** Hands a call to a free replica, or queues it in its lane. A refusal is an outcome. */
  submit(call: C): void {
    if (this.#heir) return this.#heir.submit(call);
    const now = this.#clock.monotonic();
    call.enqueuedAt = now;
    this.#admit(call, now);
  }

  /** The slots that take over all waiting and future calls; null to undo that. */
  set heir(heir: Slots<C> | null) {
    this.#heir = heir;
    if (!heir) return;
    const now = this.#clock.monotonic();
    for (const call of this.#waiting.takeAll()) heir.#admit(call, now);
  }

  #admit(call: C, now: number): void {
    const refusal = this.#refusal(call, now);
    if (refusal) return call.end(refusal);
    call.readyMsAtStart = this.#capacity.readyClock.elapsed(now);
    call.isStepped = this.#waiting.isStepped(call);
    const isGrouped = this.#waiting.hasBatches;
    const replica = this.#waiting.places === 0 && !isGrouped ? this.#free() : null;
    if (replica) this.#hand(replica, call, now);
    else this.#waiting.push(call, now);
    if (isGrouped) this.handOver();
    const isFull = isGrouped ? !call.holder : !replica || replica.busy > this.#scaling.replicaConcurrency;
    if (isFull || this.#growsEarly) this.#capacity.grow();
    this.#watch.wake();
  }

  /** Ends a call early: the reader gets `outcome` now, and the slot is free when the code has really stopped. */
  abandon(call: C, outcome: Outcome): void {
    if (this.#heir) return this.#heir.abandon(call, outcome);
    if (call.isCancelled || call.hasEnded) return;
    call.isCancelled = true;
    const replica = call.holder as SlotReplica<C> | null;
    if (replica) {
      replica.cancel(call);
      this.#clock.after(CANCEL_GRACE_MS, () => this.#enforceCancel(replica, call));
    } else {
      this.#waiting.remove(call);
      if (this.#capacity.waitsForGpu) this.#capacity.scale();
    }
    call.end(outcome);
  }

  /**
   * Takes no new calls; resolves when all calls have ended and the replicas are gone. Waiting callers are served; a
   * waiting backlog is refused now, so that another node can take it.
   */
  async drain(): Promise<void> {
    this.#isDraining = true;
    for (const call of this.#waiting.takeBacklog()) call.end(DRAINING);
    // What waits for more calls does so no longer.
    this.handOver();
    if (!this.#waiting.isEmpty) await this.#noneWaits.promise;
    this.isClosing = true;
    await this.#capacity.drain();
    this.#watch.stop();
  }

  /** Ends everything now; what still runs gets `outcome`. */
  async close(outcome: Outcome): Promise<void> {
    this.#isDraining = true;
    this.isClosing = true;
    this.#watch.stop();
    for (const replica of this.#capacity.replicas)
      for (const call of replica.calls.values()) call.end(outcome);
    for (const call of this.#waiting.takeAll()) call.end(outcome);
    this.#groupTimer?.cancel();
    this.#noneWaits.resolve();
    await this.#capacity.close();
  }

  /** Another version has replaced this one, and takes its backlog if this one cannot start. */
  get isRetired(): boolean {
    return this.#retiredAt < Number.POSITIVE_INFINITY;
  }

  set isRetired(isRetired: boolean) {
    this.#retiredAt = isRetired ? this.#clock.monotonic() : Number.POSITIVE_INFINITY;
  }

  demand(): Demand {
    return { calls: this.#load(), arrivals: this.#watch.arrivals };
  }

  /** A slot may be free: a replica has started, or responds again. */
  handOver(): void {
    const now = this.#clock.monotonic();
    if (this.#waiting.hasBatches) return this.#handOverGroups(now);
    while (this.#waiting.places > 0) {
      const replica = this.#free();
      const call = replica && this.#waiting.shift();
      if (!call) return;
      this.#hand(replica, call, now);
    }
  }

  #handOverGroups(now: number): void {
    this.#groupTimer?.cancel();
    for (const [functionName, waiting] of this.#waiting.stepped())
      if (waiting > 0) this.#handStepped(functionName, now);
    const { responseGracePeriodSeconds, replicaConcurrency } = this.#scaling;
    const limitMs = responseGracePeriodSeconds * 1000;
    const slots = Math.max(1, this.#capacity.ready.length) * replicaConcurrency;
    const moment = { now, limitMs, isDraining: this.#isDraining, slots };
    while (this.#waiting.places > 0) {
      const replica = this.#free();
      if (!replica) return;
      const departure = this.#waiting.depart(moment);
      if (typeof departure === "number") {
        this.#groupTimer = this.#clock.after(Math.max(1, departure), () => this.handOver());
        return;
      }
      this.#handTogether(replica, departure, now);
    }
  }

  /** Steppers take calls while they run others. */
  #handStepped(functionName: string, now: number): void {
    for (;;) {
      let best: SlotReplica<C> | null = null;
      let mostRoom = 0;
      for (const replica of this.#capacity.awake) {
        const { room = 0 } = replica.stepper?.(functionName) ?? {};
        if (room <= mostRoom) continue;
        best = replica;
        mostRoom = room;
      }
      const call = best && this.#waiting.shiftStepped(functionName);
      if (!best || !call) return;
      this.#hand(best, call, now);
    }
  }

  #handTogether(replica: SlotReplica<C>, { calls, batch }: Departure<C>, now: number): void {
    if (!batch) {
      for (const call of calls) this.#hand(replica, call, now);
      return;
    }
    for (const call of calls) this.#noteHanded(replica, call, now);
    replica.handBatch?.(calls, now);
    if (replica.isWorn) this.#capacity.retire(replica);
    this.#onBatch?.(batch.functionName, batch.size, batch.reason);
  }

  /** A call is over, and its slot free or gone. The next call is handed over before this one is answered. */
  onOutcome(call: C, outcome: Outcome): void {
    if (this.#waiting.hasBatches) {
      this.#waiting.noteOver(call, outcome.kind === "returned", this.#clock.monotonic());
      if (this.#hasToRunAlone(call, outcome)) return this.takeBack([call]);
    }
    if (call.lane === "backlog") this.#backlogInHand -= 1;
    if ("runMs" in outcome) {
      this.#pace.add(call.batch ? outcome.runMs / call.batch.size : outcome.runMs);
      this.#capacity.noteHealth();
    }
    if (call.isStepped) this.#handStepped(call.functionName, this.#clock.monotonic());
    if (this.#waiting.places > 0) this.handOver();
    else this.#capacity.noteIdle();
    call.end(outcome);
  }

  /** Its replica ended during a batch. It is not known whose fault that was: the calls run one by one. */
  #hasToRunAlone(call: C, { kind }: Outcome): boolean {
    const wasTogether = call.batch !== null && call.batch.size > 1;
    // The backlog goes back to the store.
    const mayWait = !this.isClosing || call.lane === "backlog";
    const isAlone = kind === "died" && wasTogether && call.mayRunAgain && mayWait;
    if (isAlone) call.isAlone = true;
    return isAlone;
  }

  /** Calls that never began, or have to begin again, wait in their old places. */
  takeBack(calls: readonly C[]): void {
    const waiting: C[] = [];
    const now = this.#clock.monotonic();
    for (const call of calls) {
      if (call.lane === "backlog") this.#backlogInHand -= 1;
      if (call.batch) this.#waiting.noteOver(call, false, now);
      call.batch = null;
      if (call.hasEnded) continue;
      call.holder = null;
      // One that has to run alone has begun before.
      if (!call.isAlone) call.handedAt = 0;
      if (this.isClosing || (this.#isDraining && call.lane === "backlog")) call.end(DRAINING);
      else waiting.push(call);
    }
    if (this.isClosing) return;
    this.#waiting.putBack(waiting);
    this.handOver();
    this.#capacity.scale();
  }

  /** No replica can start: refuses all waiting calls. */
  refuseWaiting(failure: StartFailure): void {
    for (const call of this.#waiting.takeAll()) call.end(this.#unready(call.lane, failure));
  }

  #load(): number {
    // In slots: calls that leave together count as one.
    let load = this.#waiting.places;
    for (const replica of this.#capacity.replicas) load += replica.busy;
    if (!this.#waiting.hasBatches) return load;
    // A replica's slots and each of its steppers work side by side.
    for (const [functionName, waiting] of this.#waiting.stepped())
      load = Math.max(load, this.#steppedLoad(functionName, waiting));
    return load;
  }

  /** As many slots as the replicas have that the calls of a stepper need. */
  #steppedLoad(functionName: string, waiting: number): number {
    let calls = waiting;
    const capacity = this.#stepperCapacity(functionName) || this.#waiting.mostCalls;
    for (const replica of this.#capacity.replicas) calls += replica.stepper?.(functionName).held ?? 0;
    return Math.ceil(calls / capacity) * this.#scaling.replicaConcurrency;
  }

  #refusal(call: C, now: number): Refused | null {
    const { lane } = call;
    if (this.#isDraining) return DRAINING;
    const doomed = this.#capacity.failure(now);
    if (doomed) return this.#unready(lane, doomed.failure, Math.ceil(doomed.waitMs / 1000));
    const isFull = lane === "caller" && this.#waiting.count("caller") >= this.#scaling.maxQueue;
    return isFull && !this.#makeRoom(call) ? this.#overload("queue_full") : null;
  }

  /** Another caller, who has most of the waiting calls, is refused one of them. */
  #makeRoom(call: C): boolean {
    const other = this.#waiting.yieldingTo(call);
    if (!other) return false;
    this.#waiting.remove(other);
    other.end(this.#overload("queue_full"));
    return true;
  }

  #overload(code: Parameters<typeof overload>[0]): Refused {
    const slots = Math.max(1, this.#capacity.ready.length) * this.#scaling.replicaConcurrency;
    return overload(code, { waiting: this.#waiting.count("caller"), slots, meanMs: this.#pace.meanMs });
  }

  #tooLate(obstacle: string | null): Refused {
    if (obstacle === null) return this.#overload("queue_timeout");
    return { ...this.#overload("no_gpu_free"), message: `The call waited too long for a GPU: ${obstacle}.` };
  }

  /** A replica with a free slot; if all are busy and the app is fast, one that takes a call ahead. */
  #free(): SlotReplica<C> | null {
    const slots = this.#scaling.replicaConcurrency;
    const free = this.#balancer.choose(this.#capacity.awake, slots);
    if (free) return free;
    const ahead = this.#mayHandAhead ? this.#pace.ahead : 0;
    return ahead > 0 ? this.#balancer.choose(this.#capacity.awake, slots + ahead) : null;
  }

  #hand(replica: SlotReplica<C>, call: C, now: number): void {
    this.#noteHanded(replica, call, now);
    replica.hand(call, now);
    if (replica.isWorn) this.#capacity.retire(replica);
  }

  #noteHanded(replica: SlotReplica<C>, call: C, now: number): void {
    const readyMs = this.#capacity.readyClock.elapsed(now) - call.readyMsAtStart;
    call.coldMs = now - call.enqueuedAt - readyMs;
    // `setup()` ends a start: a call that came later waited for its end alone.
    call.setupMs = replica.setupMs === null ? 0 : Math.min(replica.setupMs, call.coldMs);
    if (!call.isEndless) call.limitMs = this.#scaling.responseGracePeriodSeconds * 1000;
    if (call.lane === "backlog") this.#backlogInHand += 1;
  }

  #unready(lane: Lane, { message, lacksGpu }: StartFailure, retryAfterSeconds?: number): Refused {
    if (this.isRetired && lane === "backlog") return DRAINING;
    const code = lacksGpu ? "no_gpu_free" : "app_not_ready";
    const refusal = { kind: "refused", code, message } as const;
    return retryAfterSeconds === undefined ? refusal : { ...refusal, retryAfterSeconds };
  }

  /** A cancelled call's code does not stop: its replica is ended after its other calls. */
  #enforceCancel(replica: SlotReplica<C>, call: C): void {
    if (!replica.calls.holds(call)) return;
    const lookAgain = () => this.#clock.after(50, () => this.#enforceCancel(replica, call));
    const others = [...replica.calls.values()].filter((other) => !other.hasEnded);
    // Its code runs for these too. It leaves them as soon as the harness gets the interpreter from code that keeps it.
    const { batch, isStepped } = call;
    if (others.some((other) => isStepped || (batch !== null && other.batch === batch))) {
      lookAgain();
      return;
    }
    replica.isCondemned = true;
    // Alone in its slot, only calls that have not begun are behind it; steppers run theirs beside it.
    const isAlone = this.#scaling.replicaConcurrency === 1;
    if (!others.some((other) => !isAlone || other.isStepped)) return replica.kill();
    this.#capacity.retire(replica);
    lookAgain();
  }

  /** Every few milliseconds while there are calls: finds calls that have waited, run or blocked too long. */
  #look(): boolean {
    const now = this.#clock.monotonic();
    const graceMs = this.#scaling.responseGracePeriodSeconds * 1000;
    for (const replica of this.#capacity.replicas) {
      for (const call of replica.calls.values()) {
        if (now - call.handedAt < graceMs) break; // Oldest first: the rest is younger.
        if (call.isEndless) {
          if (now - this.#retiredAt >= graceMs) call.farewell();
          continue;
        }
        this.abandon(call, { kind: "timed_out", afterMs: graceMs });
      }
      const isAhead = replica.busy > this.#scaling.replicaConcurrency;
      if (isAhead && now - replica.headSince > SLOW_HEAD_MS) this.#unblock(replica, now);
    }
    const maxWaitMs = this.#scaling.maxQueueSeconds * 1000;
    let hasRefused = false;
    let obstacle: string | null = null;
    for (let call = this.#waiting.oldestCaller(); call; call = this.#waiting.oldestCaller()) {
      if (this.#capacity.readyClock.elapsed(now) - call.readyMsAtStart < maxWaitMs) break;
      this.#waiting.remove(call);
      if (!hasRefused) obstacle = this.#capacity.gpuObstacle();
      hasRefused = true;
      call.end(this.#tooLate(obstacle));
    }
    // A start that no call waits for any more is given up.
    if (hasRefused && this.#capacity.waitsForGpu) this.#capacity.scale();
    if (this.#isDraining && this.#waiting.isEmpty) this.#noneWaits.resolve();
    return this.#load() > 0;
  }

  /** The first call is slow: calls handed ahead go back to the queue. */
  #unblock(replica: SlotReplica<C>, now: number): void {
    this.#pace.add(now - replica.headSince);
    replica.headSince = Number.POSITIVE_INFINITY; // Once per head.
    let position = 0;
    for (const call of replica.calls.values()) {
      position += 1;
      // Closing slots have no queue left for a caller; a backlog call waits in the store.
      const mayLeave = !this.isClosing || call.lane === "backlog";
      if (position > this.#scaling.replicaConcurrency && mayLeave) replica.withdraw(call);
    }
  }
}
