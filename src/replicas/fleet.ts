import { backoffMs } from "../kit/retry.ts";
import type { Exit, InitFailure } from "../engines/engine.ts";
import { Condition } from "../kit/concurrency.ts";
import type { Clock, Timer } from "../kit/clock.ts";
import { randomName } from "../kit/ids.ts";
import type { FunctionSignature } from "../model/app.ts";
import type { ScalingConfig } from "../model/app-config.ts";
import type { Outcome } from "../model/outcome.ts";
import type { FleetCounts, FleetEvents, FleetParts, FleetReplica, ReplicaSource } from "./fleet-events.ts";
import { Meter } from "./meter.ts";
import { HeartbeatTimer } from "../engines/heartbeat.ts";
import type { Capacity, StartPhase } from "./slots/capacity.ts";
import { desiredReplicas, type Load } from "./slots/scale.ts";

/**
 * Counts the time in which at least one replica was ready, or waited for a GPU that others have: only that counts against a
 * waiting call.
 */
export class ReadyClock {
  #countedMs = 0;
  #readySince: number | null = null;

  set(isReady: boolean, now: number): void {
    if (isReady === (this.#readySince !== null)) return;
    this.#countedMs = this.elapsed(now);
    this.#readySince = isReady ? now : null;
  }

  elapsed(now: number): number {
    return this.#countedMs + (this.#readySince === null ? 0 : now - this.#readySince);
  }
}

const BASE_MS = 250;
const MAX_MS = 30_000;

/** The backoff after replicas that failed. The first crash costs no wait. */
export class CrashLoop {
  #failures = 0;
  #failedAt = Number.NEGATIVE_INFINITY;
  #notBefore = 0;
  /** Why the latest start failed; null if it did not. */
  initFailure: InitFailure | null = null;

  /** The latest replica failed. */
  get hasFailed(): boolean {
    return this.#failures > 0;
  }

  /** Records a replica that died by itself, or could not start. */
  record(startedAt: number, now: number, initFailure: InitFailure | null): void {
    // It was already running at the last failure: several at once count as one failure.
    if (startedAt < this.#failedAt) return;
    this.initFailure = initFailure;
    this.#failures += 1;
    this.#failedAt = now;
    const isFirst = this.#failures === 1 && !initFailure;
    this.#notBefore = isFirst ? now : now + backoffMs(this.#failures, BASE_MS, MAX_MS);
  }

  /** A replica has answered a call: the app works. */
  forgive(): void {
    this.#failures = 0;
    this.#notBefore = 0;
  }

  waitMs(now: number): number {
    return Math.max(0, this.#notBefore - now);
  }
}

const FURTHEST_FIRST: readonly StartPhase[] = ["setup", "importing", "starting", "waiting_for_gpu"];
const WANTS_GPU = "it waits for a GPU";
const BY_CALLS = { scalingMetric: "concurrency_utilization", scalingTarget: 100 } as const;
const NOTHING_MEASURED = { callsPerSecond: 0, usedPercent: 0 };
/** A machine that ends sooner after its app was ready may have been ended by the app. */
const SETTLED_MS = 60_000;

/** The replicas of a version: starts as many as the load needs, and stops those idle for the cooldown. */
export class Fleet<C, R extends FleetReplica<C>> implements Capacity<C> {
  readonly readyClock = new ReadyClock();
  readonly replicas = new Set<R>();
  /** The ready ones, oldest first. */
  ready: readonly R[] = [];
  /** The ready ones that respond: only they are given calls. */
  awake: readonly R[] = [];
  #scaling: ScalingConfig;
  readonly #source: ReplicaSource<C, R>;
  readonly #events: FleetEvents<C, R>;
  readonly #clock: Clock;
  readonly #counts: FleetCounts;
  readonly #crashes = new CrashLoop();
  readonly #heartbeats: HeartbeatTimer;
  readonly #meter: Meter<R>;
  #timer: Timer | null = null;
  #timerAt = Number.POSITIVE_INFINITY;
  #isStopping = false;
  /** Whether only one replica can run; null until the first is ready, and no second is started before that. */
  #single: boolean | null;
  /** The port that the last replica to fail could not listen on; null for none. */
  #portInUse: number | null = null;
  /** Replicas whose machine is about to end. Each takes calls until its replacement is ready. */
  readonly #leaving = new Set<R>();
  /** Why replicas were ended for the sake of others. */
  readonly #evicted = new WeakMap<R, string>();
  /** No replica may start. */
  #isVacant = false;
  /** A replica is gone. */
  readonly #departures = new Condition();

  constructor(scaling: ScalingConfig, { source, clock, events, counts, allowance }: FleetParts<C, R>) {
    this.#scaling = scaling;
    this.#source = source;
    this.#events = events;
    this.#clock = clock;
    this.#counts = counts;
    this.#single = source.mayBeSingle ? null : false;
    this.#heartbeats = new HeartbeatTimer(clock, () => {
      for (const replica of this.replicas) replica.checkHealth();
    });
    this.#meter = new Meter<R>(scaling, allowance, clock, {
      ready: () => this.ready,
      arrivals: () => events.demand().arrivals,
      onMeasured: () => this.scale(),
      onError: (error) => events.onError(error),
    });
  }

  get isSingle(): boolean {
    return this.#single === true;
  }

  /** For how long no replica is ready and none may be started, because the last ones failed. */
  holdMs(now: number): number {
    return this.ready.length === 0 ? this.#crashes.waitMs(now) : 0;
  }

  /** Why the latest replica could not start, if none is ready. */
  get startFailure(): InitFailure | null {
    return this.ready.length === 0 ? this.#crashes.initFailure : null;
  }

  get waitsForGpu(): boolean {
    return this.#withoutGpu() !== null;
  }

  /** What a start waits for that has no GPU yet; null if none waits. */
  gpuObstacle(): string | null {
    const replica = this.#withoutGpu();
    return replica && (replica.obstacle() ?? WANTS_GPU);
  }

  get startPhase(): StartPhase | null {
    if (this.ready.length > 0) return null;
    const phases = new Set<StartPhase>();
    for (const { state, isCondemned, startPhase } of this.replicas)
      if (state === "starting" && !isCondemned) phases.add(startPhase);
    return FURTHEST_FIRST.find((phase) => phases.has(phase)) ?? null;
  }

  #withoutGpu(): R | null {
    for (const replica of this.replicas) if (replica.waitsForGpu && !replica.isCondemned) return replica;
    return null;
  }

  /** So many replicas are kept whatever others need. */
  get minReplicas(): number {
    return this.#scaling.minReplicas;
  }

  /** Replicas that no call needs, and since when; no more than there are beyond those that are wanted. */
  idle(): { readonly id: string; readonly sinceMs: number }[] {
    const scaling = { ...this.#scaling, ...BY_CALLS };
    const { calls } = this.#events.demand();
    const wanted = desiredReplicas(scaling, { calls, ...NOTHING_MEASURED });
    const surplus = [...this.replicas].filter((each) => this.#isLasting(each)).length - wanted;
    return this.ready
      .filter(({ calls }) => calls.size === 0)
      .toSorted((one, other) => one.idleSince - other.idleSince)
      .slice(0, Math.max(0, surplus))
      .map(({ id, idleSince }) => ({ id, sinceMs: idleSince }));
  }

  /** Ends an idle replica because another app needs its GPU. False if it is needed after all. */
  evict(id: string, forWhom: string): boolean {
    const isIdle = this.idle().some((each) => each.id === id);
    const replica = isIdle && this.ready.find((each) => each.id === id);
    if (!replica) return false;
    const reason = `evicted for ${forWhom}`;
    this.#evicted.set(replica, reason);
    const text = `[millrace] this replica was ${reason}, which needs its GPU`;
    this.#events.onLog(replica, { stream: "stderr", runId: null, text });
    this.retire(replica);
    return true;
  }

  /** Why a replica is being ended; null if it is not, or only for lack of calls. */
  stopReason(replica: R): string | null {
    return this.#evicted.get(replica) ?? null;
  }

  /** Why a call cannot be served now, and for how long. */
  failure(now: number): { failure: InitFailure; waitMs: number } | null {
    const { initFailure } = this.#crashes;
    const waitMs = this.holdMs(now);
    return initFailure && waitMs > 0 ? { failure: initFailure, waitMs } : null;
  }

  setScaling(scaling: ScalingConfig): void {
    this.#scaling = scaling;
    this.#meter.setScaling(scaling);
    if (this.replicas.size > 0 && !this.#isStopping) this.#meter.start();
    this.scale();
  }

  /** Brings the number of replicas in line with the load. */
  scale(): void {
    if (this.#isStopping) return;
    const now = this.#clock.monotonic();
    const wanted = desiredReplicas(this.#scaling, {
      calls: this.#events.demand().calls + this.#silentSlots(),
      ...this.#measured(now),
    });
    const most = this.#isVacant ? 0 : this.#single === false ? wanted : 1;
    const desired = Math.min(most, wanted);
    let living = 0;
    // If only one can run, another starts only when the last is gone.
    for (const replica of this.replicas) if (this.#isLasting(replica) || this.isSingle) living += 1;
    const waitMs = this.#crashes.waitMs(now);
    if (living < desired && waitMs > 0) this.#lookAgainIn(waitMs);
    else for (; living < desired; living++) this.#start();
    if (living > desired) this.#stopIdle(living - desired, now);
    if (living >= desired) this.#dismiss();
  }

  /** A call found every slot taken: more replicas are wanted, if there may be more. */
  grow(): void {
    // Ending replicas do not count: their last call may take long.
    if (this.ready.length < this.#scaling.maxReplicas) this.scale();
  }

  /** A replica is idle: it may be stopped after its cooldown. */
  noteIdle(): void {
    if (this.#timer === null) this.#lookAgainIn(this.#scaling.cooldownSeconds * 1000);
  }

  /** A replica has answered, so the app works, or the cause of earlier failures is gone. */
  noteHealth(): void {
    this.#crashes.forgive();
  }

  /** Takes a replica out of service; it finishes what it holds and exits. */
  retire(replica: R): void {
    replica.isCondemned = true;
    this.#leaving.delete(replica);
    this.#withdraw(replica);
    replica.stop(this.#stopSeconds());
  }

  /** Has every replica finish what it holds and end, and starts none until `occupy`; resolves when the last is gone. */
  async vacate(signal: AbortSignal): Promise<void> {
    this.#isVacant = true;
    for (const replica of this.replicas) this.retire(replica);
    await this.#empty(signal);
  }

  /** Replicas may start again. */
  occupy(): void {
    this.#isVacant = false;
    this.scale();
  }

  /** Asks every replica to end and waits until the last is gone. */
  async drain(): Promise<void> {
    this.#halt();
    for (const replica of this.replicas) replica.stop(this.#stopSeconds());
    await this.#empty();
  }

  /** Ends every replica now, and every other process of the version, kept templates too. */
  async close(): Promise<void> {
    this.#halt();
    for (const replica of this.replicas) replica.kill();
    await this.#source.close();
    await this.#empty();
  }

  #start(): void {
    this.#counts.starts += 1;
    const id = `r-${randomName(12)}`;
    const startedAt = this.#clock.monotonic();
    const replica: R = this.#source.open(id, {
      onReady: (functions) => this.#onReady(replica, functions),
      onSingle: () => (this.#single = true),
      onOutcome: (call, outcome) => this.#events.onOutcome(call, outcome),
      onWithdrawn: (call) => this.#events.onReturned([call]),
      onGranted: () => this.#noteReady(),
      onEnding: () => this.#withdraw(replica),
      onLeaving: () => this.#onLeaving(replica, startedAt),
      onSilence: (isSilent) => this.#onSilence(isSilent),
      onGone: (exit, begun, waiting) => this.#onGone(replica, startedAt, exit, begun, waiting),
      onLog: (line) => this.#events.onLog(replica, line),
      onError: (error) => this.#events.onError(error),
    });
    this.replicas.add(replica);
    this.#noteReady();
    this.#meter.start();
  }

  #noteReady(): void {
    const waits = this.ready.length === 0 && this.waitsForGpu;
    this.readyClock.set(this.ready.length > 0 || waits, this.#clock.monotonic());
  }

  #onReady(replica: R, functions: readonly FunctionSignature[]): void {
    this.#crashes.initFailure = null;
    if (this.ready.length === 0 && this.#events.demand().calls > 0) this.#counts.coldStarts += 1;
    const isFirst = this.#single === null;
    this.#single ??= false;
    this.#setReady([...this.ready, replica]);
    this.#heartbeats.start();
    this.#noteReady();
    this.#events.onReady(functions);
    const [relieved] = this.#leaving.has(replica) ? [] : this.#leaving;
    if (relieved) this.retire(relieved);
    this.noteIdle();
    // Start the replicas that calls have asked for meanwhile.
    if (isFirst) this.scale();
  }

  #isLasting(replica: R): boolean {
    const { state, isCondemned } = replica;
    const isNew = state === "starting" && !isCondemned;
    return (isNew || state === "ready") && !this.#leaving.has(replica);
  }

  #onLeaving(replica: R, startedAt: number): void {
    if (replica.state === "gone" || this.#isStopping) return;
    this.#leaving.add(replica);
    const { readyAt, state } = replica;
    // An app may cause the end of its machine, like a crash. The first time costs no wait: it may be a drained machine.
    if (readyAt === 0 || this.#clock.now() - readyAt < SETTLED_MS)
      this.#crashes.record(startedAt, this.#clock.monotonic(), null);
    this.scale();
    // A starting replica will not be of use.
    if (state === "starting") this.retire(replica);
  }

  /** Retires leaving replicas for which no replacement is starting. */
  #dismiss(): void {
    if (this.#leaving.size === 0) return;
    // One that waits for a GPU may wait for that of the replica that is leaving.
    const isAwaited = [...this.replicas].some(
      (each) => each.state === "starting" && !each.waitsForGpu && this.#isLasting(each),
    );
    if (!isAwaited) for (const replica of this.#leaving) this.retire(replica);
  }

  #onSilence(isSilent: boolean): void {
    this.#setReady(this.ready);
    if (!isSilent) this.#events.onAwake();
    // A replica that responds again may be surplus by now.
    this.scale();
  }

  #setReady(ready: readonly R[]): void {
    this.ready = ready;
    this.awake = ready.filter(({ isSilent }) => !isSilent);
  }

  /** Free slots of silent replicas. */
  #silentSlots(): number {
    let slots = 0;
    for (const { isSilent, busy } of this.ready)
      if (isSilent) slots += Math.max(0, this.#scaling.replicaConcurrency - busy);
    return slots;
  }

  /** Replicas that were idle for a whole cooldown do not count: what they use is not due to calls. */
  #measured(now: number): Omit<Load, "calls"> {
    if (!this.#meter.isRunning) return NOTHING_MEASURED;
    const since = now - this.#scaling.cooldownSeconds * 1000;
    const busy = this.ready.filter(({ calls, idleSince }) => calls.size > 0 || idleSince > since);
    if (busy.length === 0) return NOTHING_MEASURED;
    const usedPercent = busy.reduce((sum, replica) => sum + this.#meter.usedPercent(replica), 0);
    return { callsPerSecond: this.#meter.callsPerSecond, usedPercent };
  }

  #onGone(replica: R, startedAt: number, exit: Exit, begun: readonly C[], waiting: readonly C[]): void {
    this.replicas.delete(replica);
    this.#leaving.delete(replica);
    if (this.replicas.size === 0) {
      this.#heartbeats.stop();
      this.#meter.stop();
    }
    this.#withdraw(replica);
    if (replica.waitsForGpu) this.#noteReady();
    const isFault = !replica.isCondemned && !this.#isStopping;
    const failure = isFault ? this.#failureToStart(replica, exit) : null;
    if (isFault) {
      this.#counts.deaths += 1;
      this.#crashes.record(startedAt, this.#clock.monotonic(), failure);
      this.#notePort(replica, exit.initFailure?.portInUse ?? null);
    }
    const told = this.#evicted.get(replica) ?? exit.detail;
    this.#events.onReplicaGone(replica.id, {
      ...exit,
      detail: told,
      initFailure: exit.initFailure ?? failure,
    });
    const { detail, isOutOfMemory, isOutOfGpuMemory } = exit;
    const cause = { ...(isOutOfMemory && { isOutOfMemory }), ...(isOutOfGpuMemory && { isOutOfGpuMemory }) };
    const died: Outcome = { kind: "died", detail, ...cause };
    for (const call of begun) this.#events.onOutcome(call, died);
    const { initFailure } = this.#crashes;
    if (isFault && initFailure && this.ready.length === 0) this.#events.onInitFailure(initFailure);
    this.#events.onReturned(waiting);
    this.scale();
    this.#departures.notify();
  }

  /** A first unexplained failure to start may be an accident of the machine; a second one is the app's fault. */
  #failureToStart(replica: R, exit: Exit): InitFailure | null {
    if (exit.initFailure || replica.readyAt > 0) return exit.initFailure;
    if (!exit.isOutOfMemory && !this.#crashes.hasFailed) return null;
    const message = `The app's process ended while it started (${exit.detail}).`;
    return { message, traceback: message };
  }

  /** A port that two replicas cannot share. Once may be chance: some servers pick a port at random. */
  #notePort(replica: R, port: number | null): void {
    const isAgain = port !== null && port === this.#portInUse && this.ready.length > 0;
    this.#portInUse = port;
    if (!isAgain || this.#single === true) return;
    this.#single = true;
    const text = `[millrace] the server needs TCP port ${port} in each replica: it runs as one replica`;
    this.#events.onLog(replica, { stream: "stderr", runId: null, text });
  }

  /** Calls have their own time limit; a replica that outlives even that is stuck. */
  #stopSeconds(): number {
    return this.#scaling.responseGracePeriodSeconds + 6;
  }

  #withdraw(replica: R): void {
    if (!this.ready.includes(replica)) return;
    this.#setReady(this.ready.filter((other) => other !== replica));
    if (this.ready.length === 0) this.#noteReady();
  }

  #stopIdle(surplus: number, now: number): void {
    const cooldownMs = this.#scaling.cooldownSeconds * 1000;
    let left = surplus;
    // Starts that nothing needs must not take a GPU from others.
    for (const replica of [...this.replicas].toReversed()) {
      if (left === 0 || !replica.waitsForGpu || replica.isCondemned) continue;
      left -= 1;
      this.retire(replica);
    }
    // Youngest first: the balancer prefers the oldest.
    for (const replica of this.ready.toReversed()) {
      if (left === 0) return;
      if (replica.calls.size > 0) continue;
      const waitMs = replica.idleSince + cooldownMs - now;
      if (waitMs > 0) this.#lookAgainIn(waitMs);
      else {
        left -= 1;
        this.retire(replica);
      }
    }
  }

  #lookAgainIn(delayMs: number): void {
    const at = this.#clock.monotonic() + Math.max(1, delayMs);
    if (this.#isStopping || at >= this.#timerAt) return;
    this.#timer?.cancel();
    this.#timerAt = at;
    this.#timer = this.#clock.after(Math.max(1, delayMs), () => {
      this.#timer = null;
      this.#timerAt = Number.POSITIVE_INFINITY;
      this.scale();
    });
  }

  #halt(): void {
    this.#isStopping = true;
    this.#meter.stop();
    this.#timer?.cancel();
  }

  async #empty(signal = new AbortController().signal): Promise<void> {
    while (this.replicas.size > 0 && !signal.aborted) await this.#departures.wait(signal);
  }
}
