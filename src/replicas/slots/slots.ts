import type { Clock, Timer } from "../../kit/clock.ts";
import type { ScalingConfig } from "../../model/app-config.ts";
import type { Outcome, Refused } from "../../model/outcome.ts";
import { Balancer } from "./balance.ts";
import type { Capacity, Lane, SlotCall, SlotReplica, StartFailure } from "./capacity.ts";
import { Lanes } from "./lanes.ts";
import { overload, Pace } from "./pace.ts";
import { growsEarly } from "./scale.ts";

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
  readonly #lanes = new Lanes<C>();
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

  /** `mayHandAhead`: replicas can give back calls, so a busy one may hold more than it runs. */
  constructor(scaling: ScalingConfig, capacity: Capacity<C>, clock: Clock, mayHandAhead: boolean) {
    this.#mayHandAhead = mayHandAhead;
    this.#clock = clock;
    this.#watch = new Watch(clock, () => this.#look());
    this.#scaling = scaling;
    this.#growsEarly = growsEarly(scaling);
    this.#balancer = new Balancer(scaling.loadBalancingAlgorithm);
    this.#capacity = capacity;
  }

  /** How many calls of both lanes wait. */
  get waiting(): number {
    return this.#lanes.size;
  }

  /** How long the caller at the head of the queue has waited, in milliseconds; 0 when none waits. */
  get oldestWaitMs(): number {
    const first = this.#lanes.callers.peek();
    return first ? this.#clock.monotonic() - first.enqueuedAt : 0;
  }

  /** How many more backlog calls it takes now: one for each slot, and some ahead if they are short. */
  get backlogRoom(): number {
    if (this.#heir) return this.#heir.backlogRoom;
    if (this.#isDraining || this.#capacity.holdMs(this.#clock.monotonic()) > 0) return 0;
    const slots = this.#scaling.maxReplicas * this.#scaling.replicaConcurrency;
    const ahead = Math.floor(slots * this.#pace.callsIn(BACKLOG_AHEAD_MS));
    const held = this.#lanes.backlog.size + this.#backlogInHand;
    return Math.max(0, slots + Math.min(MAX_BACKLOG_AHEAD, ahead) - held);
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
    for (const call of this.#lanes.takeAll()) heir.#admit(call, now);
  }

  #admit(call: C, now: number): void {
    const refusal = this.#refusal(call, now);
    if (refusal) return call.end(refusal);
    call.readyMsAtStart = this.#capacity.readyClock.elapsed(now);
    const replica = this.#lanes.size === 0 ? this.#free() : null;
    if (replica) this.#hand(replica, call, now);
    else this.#lanes.push(call);
    const isFull = !replica || replica.calls.size > this.#scaling.replicaConcurrency;
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
      this.#lanes.remove(call);
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
    for (const call of this.#lanes.backlog.takeAll()) call.end(DRAINING);
    if (this.#lanes.size > 0) await this.#noneWaits.promise;
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
    for (const call of this.#lanes.takeAll()) call.end(outcome);
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
    while (this.#lanes.size > 0) {
      const replica = this.#free();
      const call = replica && this.#lanes.shift();
      if (!call) return;
      this.#hand(replica, call, now);
    }
  }

  /** A call is over, and its slot free or gone. The next call is handed over before this one is answered. */
  onOutcome(call: C, outcome: Outcome): void {
    if (call.lane === "backlog") this.#backlogInHand -= 1;
    if ("runMs" in outcome) {
      this.#pace.add(outcome.runMs);
      this.#capacity.noteHealth();
    }
    if (this.#lanes.size > 0) this.handOver();
    else this.#capacity.noteIdle();
    call.end(outcome);
  }

  /** Calls that never began wait again, in their old places. */
  takeBack(calls: readonly C[]): void {
    const waiting: C[] = [];
    for (const call of calls) {
      if (call.lane === "backlog") this.#backlogInHand -= 1;
      if (call.hasEnded) continue;
      call.holder = null;
      if (this.isClosing || (this.#isDraining && call.lane === "backlog")) call.end(DRAINING);
      else waiting.push(call);
    }
    if (this.isClosing) return;
    this.#lanes.putBack(waiting);
    this.handOver();
    this.#capacity.scale();
  }

  /** No replica can start: refuses all waiting calls. */
  refuseWaiting(failure: StartFailure): void {
    for (const call of this.#lanes.takeAll()) call.end(this.#unready(call.lane, failure));
  }

  #load(): number {
    let calls = this.#lanes.size;
    for (const replica of this.#capacity.replicas) calls += replica.calls.size;
    return calls;
  }

  #refusal({ lane }: C, now: number): Refused | null {
    if (this.#isDraining) return DRAINING;
    const doomed = this.#capacity.failure(now);
    if (doomed) return this.#unready(lane, doomed.failure, Math.ceil(doomed.waitMs / 1000));
    const isFull = lane === "caller" && this.#lanes.callers.size >= this.#scaling.maxQueue;
    return isFull ? this.#overload("queue_full") : null;
  }

  #overload(code: Parameters<typeof overload>[0]): Refused {
    const slots = Math.max(1, this.#capacity.ready.length) * this.#scaling.replicaConcurrency;
    return overload(code, { waiting: this.#lanes.callers.size, slots, meanMs: this.#pace.meanMs });
  }

  #tooLate(): Refused {
    const obstacle = this.#capacity.gpuObstacle();
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
    const readyMs = this.#capacity.readyClock.elapsed(now) - call.readyMsAtStart;
    call.coldMs = now - call.enqueuedAt - readyMs;
    // `setup()` ends a start: a call that came later waited for its end alone.
    call.setupMs = replica.setupMs === null ? 0 : Math.min(replica.setupMs, call.coldMs);
    if (call.lane === "backlog") this.#backlogInHand += 1;
    replica.hand(call, now);
    if (replica.isWorn) this.#capacity.retire(replica);
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
    replica.isCondemned = true;
    const others = [...replica.calls.values()].some((other) => !other.hasEnded);
    if (!others || this.#scaling.replicaConcurrency === 1) return replica.kill();
    this.#capacity.retire(replica);
    this.#clock.after(50, () => this.#enforceCancel(replica, call));
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
      const isAhead = replica.calls.size > this.#scaling.replicaConcurrency;
      if (isAhead && now - replica.headSince > SLOW_HEAD_MS) this.#unblock(replica, now);
    }
    const maxWaitMs = this.#scaling.maxQueueSeconds * 1000;
    const { callers } = this.#lanes;
    let late: Refused | null = null;
    for (let call = callers.peek(); call; call = callers.peek()) {
      if (this.#capacity.readyClock.elapsed(now) - call.readyMsAtStart < maxWaitMs) break;
      callers.shift();
      call.end((late ??= this.#tooLate()));
    }
    // A start that no call waits for any more is given up.
    if (late && this.#capacity.waitsForGpu) this.#capacity.scale();
    if (this.#isDraining && this.#lanes.size === 0) this.#noneWaits.resolve();
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

/** Short enough for prompt timeouts, long enough to cost nothing. */
const TICK_MS = 10;
const IDLE_TICKS = 100;

/** Checks all calls of a pool on one timer, because timers per call are costly; stops after an idle second. */
export class Watch {
  /** How many calls have arrived so far. */
  arrivals = 0;
  readonly #clock: Clock;
  readonly #look: () => boolean;
  #timer: Timer | null = null;
  #idleTicks = 0;

  /** `look` returns whether there are still calls. */
  constructor(clock: Clock, look: () => boolean) {
    this.#clock = clock;
    this.#look = look;
  }

  /** Counts an arrival, and starts the timer. */
  wake(): void {
    this.arrivals += 1;
    this.#timer ??= this.#clock.every(TICK_MS, () => this.#tick());
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  #tick(): void {
    this.#idleTicks = this.#look() ? 0 : this.#idleTicks + 1;
    if (this.#idleTicks >= IDLE_TICKS) this.stop();
  }
}
