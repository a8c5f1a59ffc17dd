import type { Clock, Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { isRefusal } from "../model/errors.ts";
import type { Outcome } from "../model/outcome.ts";
import { callerOf } from "../model/run.ts";
import { hasRun, lateness } from "../model/terms.ts";
import type { Owners } from "../nodes/owners.ts";
import type { ClaimedRun, HeldClaim } from "../store/runs/claims.ts";
import type { RunTarget } from "../replicas/pool.ts";
import type { Store } from "../store/store.ts";
import type { ClaimRecorder } from "./claim-recorder.ts";
import type { Executor } from "./execute.ts";
import { BACK, type LargePayloads, withInputs } from "./large-payloads.ts";
import { endWhenLate } from "./late-runs.ts";
import type { Claim, LiveRun, RunRequest } from "./live-run.ts";
import { httpOf } from "./ended-run.ts";

export type DispatcherParts = {
  readonly store: Store;
  readonly executor: Executor;
  readonly recorder: ClaimRecorder;
  readonly clock: Clock;
  readonly log: Log;
  /** This process, among those that share the database. */
  readonly owner: string;
  /** Owners that are dead, whatever their leases say. */
  readonly predecessors: readonly string[];
  /** Null if all payloads are in the database. */
  readonly large: LargePayloads | null;
  /** The current target of an app; null for an app that takes no runs. */
  readonly target: (appNumber: number) => RunTarget | null;
  /** The target of runs that this version accepted. */
  readonly versionTarget: (appNumber: number, versionId: string) => Promise<RunTarget | null>;
  /** Null if this is the only service. */
  readonly owners: Pick<Owners, "holderOf" | "mayClaim" | "sync" | "lookAfter"> | null;
  /** Ends the queued runs of those of the apps that are deleted. */
  readonly endOrphans: (appNumbers: readonly number[]) => Promise<void>;
};

class Backlog {
  /** Claimed and not yet ended. */
  held = 0;
  /** Of these, runs that the current version's slots do not count. */
  uncounted = 0;
  /** Places reserved for runs that are being accepted. */
  reserved = 0;
  /** Runs on their way into the store. */
  arriving = 0;
  isClaiming = false;
  /** Whether the store may hold more. */
  hasMore = false;
  /** A claim that failed here may have succeeded in the store. */
  isInDoubt = false;
  /** Monotonic; no claims until then, because the arguments of the next run could not be read. */
  restsUntil = 0;
}

/** How often a backlog without room is checked again. */
const LOOK_MS = 1_000;
/** How often the store's claimed and queued runs are compared with the state here. */
const REVIEW_MS = 60_000;
/** Arguments of waiting runs in memory, per app. */
const MAX_CLAIM_BYTES = 8 * 1024 * 1024;
/** A run is given up after this many interruptions, because it may cause them. */
const MAX_INTERRUPTIONS = 20;
/** Runs whose time has come that one write makes due. */
const MAX_DUE = 1_000;
/** Delay before a run is retried whose arguments could not be read. */
const REST_MS = 1_000;

const UNREACHED = "the dispatcher could not reach the storage";

/**
 * Takes accepted runs from the store to the replicas, in order of arrival, as many as an app's slots have room for. It
 * claims each run in the store, where only the claimer may write the end.
 */
export class Dispatcher {
  readonly #parts: DispatcherParts;
  readonly #backlogs = new Map<number, Backlog>();
  readonly #timers: Timer[] = [];
  #looking: Promise<void> | null = null;
  #makingDue: Promise<void> | null = null;
  /** For the next run that this service has delayed, and when that is. */
  #dueTimer: Timer | null = null;
  #dueAt = Number.POSITIVE_INFINITY;
  #isRecovering = false;
  #isStopping = false;

  constructor(parts: DispatcherParts) {
    this.#parts = parts;
  }

  /** Requeues the runs of earlier processes, and begins to dispatch. */
  async start(): Promise<void> {
    const { store, owner, predecessors, log } = this.#parts;
    const isAlone = store.kind === "sqlite";
    const count = await store.claims.recover({ owner, isAlone, dead: predecessors });
    if (count > 0) log.info({ count }, "requeued runs that an earlier service left unfinished");
    await this.#lookForWork();
    this.#every(LOOK_MS, async () => {
      for (const [appNumber, backlog] of this.#backlogs) this.#pump(appNumber, backlog);
    });
    this.#every(LOOK_MS, () => this.#makeDue());
    this.#every(REVIEW_MS, () => this.#review());
    if (!isAlone) this.#every(LOOK_MS, () => this.#lookForWork());
  }

  /** Claims nothing more; runs in progress continue and stay claimed. */
  stop(): void {
    this.#isStopping = true;
    for (const timer of this.#timers) timer.cancel();
    this.#dueTimer?.cancel();
  }

  /** Requeues the runs of dead nodes. One call at a time: waiting for a locked table, several could use up connections. */
  async recoverDead(reckonedNow: number): Promise<void> {
    if (this.#isRecovering) return;
    const { store, owner, log } = this.#parts;
    this.#isRecovering = true;
    try {
      const count = await store.claims.recover({ owner, isAlone: false, reckonedNow });
      if (count > 0) log.info({ count }, "requeued runs of a node that has died");
    } catch (error) {
      log.error({ err: error }, "could not look for runs left by dead nodes");
    } finally {
      this.#isRecovering = false;
    }
  }

  /** The store holds runs of that app. */
  wake(appNumber: number): void {
    const backlog = this.#backlog(appNumber);
    backlog.hasMore = true;
    this.#pump(appNumber, backlog);
  }

  /** A run of that app was requeued, and may begin then, or now. */
  released(appNumber: number, dueAt: number | null): void {
    // Of an app that was deleted meanwhile it ends now.
    if (dueAt === null || !this.#parts.target(appNumber)) this.wake(appNumber);
    else this.dueBy(dueAt);
  }

  /** A queued run may begin then. */
  dueBy(dueAt: number): void {
    const { clock, log } = this.#parts;
    const waitMs = dueAt - clock.now();
    // Later, the next look comes first.
    if (this.#isStopping || dueAt >= this.#dueAt || waitMs >= LOOK_MS) return;
    this.#dueTimer?.cancel();
    this.#dueAt = dueAt;
    const look = (): void =>
      void this.#makeDue().catch((error: unknown) => log.error({ err: error }, UNREACHED));
    this.#dueTimer = clock.after(Math.max(0, waitMs), look);
  }

  /** Whether a run may skip the empty queue; its place must be used with `runReserved` or given back. */
  reserve({ appNumber, slots }: RunTarget): boolean {
    const backlog = this.#backlog(appNumber);
    if (this.#isStopping || backlog.hasMore || backlog.isClaiming || backlog.arriving > 0) return false;
    // Runs of an app that another service may own go into the queue, where its owner finds them.
    const { owners, recorder } = this.#parts;
    if ((owners && !owners.mayClaim(appNumber)) || !recorder.hasRoom(appNumber)) return false;
    if (slots.backlogRoom <= backlog.reserved) return false;
    backlog.reserved += 1;
    return true;
  }

  /** A run of that app is being stored: no later run may overtake it. */
  expect(appNumber: number): void {
    this.#backlog(appNumber).arriving += 1;
  }

  /** That run is stored, or never will be. */
  arrived(appNumber: number): void {
    this.#backlog(appNumber).arriving -= 1;
    this.wake(appNumber);
  }

  giveBack(appNumber: number): void {
    const backlog = this.#backlog(appNumber);
    backlog.reserved -= 1;
    this.#pump(appNumber, backlog);
  }

  /** A run of that app is claimed by this process and must go back into the queue. */
  putBack(appNumber: number): void {
    this.#backlog(appNumber).isInDoubt = true;
    this.wake(appNumber);
  }

  /** Executes a run for which a place was reserved. */
  runReserved(request: RunRequest, claim: Claim): void {
    this.#backlog(request.target.appNumber).reserved -= 1;
    void this.#hold(this.#parts.executor.executeClaimed(request, claim, null));
  }

  /** Counts a run until its end is recorded. */
  async #hold(run: LiveRun): Promise<void> {
    const { appNumber, slots } = run.request.target;
    const backlog = this.#backlog(appNumber);
    const more = this.#parts.target(appNumber)?.slots === slots ? 0 : 1;
    backlog.held += 1;
    backlog.uncounted += more;
    const { terms } = run.request;
    await (terms ? endWhenLate(run, terms, this.#parts.clock) : run.settled());
    backlog.held -= 1;
    backlog.uncounted -= more;
    this.#pump(appNumber, backlog);
  }

  #backlog(appNumber: number): Backlog {
    const backlog = this.#backlogs.get(appNumber) ?? new Backlog();
    this.#backlogs.set(appNumber, backlog);
    return backlog;
  }

  /** Claims as many runs as the app's slots have room for. */
  #pump(appNumber: number, backlog: Backlog): void {
    if (this.#isStopping || backlog.isClaiming || !backlog.hasMore) return;
    const target = this.#parts.target(appNumber);
    if (!target) {
      backlog.hasMore = false;
      void this.#work(appNumber, backlog, () => this.#lookAfter([appNumber]));
      return;
    }
    // Runs that wait for an earlier version count too, so that no version's runs pile up.
    const room = target.slots.backlogRoom - backlog.uncounted - backlog.reserved;
    if (room <= 0 || !this.#parts.recorder.hasRoom(appNumber)) return;
    if (this.#parts.clock.monotonic() < backlog.restsUntil) return;
    const { maxReplicas, replicaConcurrency } = target.config.scaling;
    // With many runs waiting, claims many at once: claims of single short runs would cost more than the runs.
    if (backlog.held > maxReplicas * replicaConcurrency && room < backlog.held) return;
    backlog.hasMore = false;
    void this.#work(appNumber, backlog, () => this.#claim(target, backlog, room));
  }

  /** One piece of work on a backlog at a time. */
  async #work(appNumber: number, backlog: Backlog, work: () => Promise<void>): Promise<void> {
    backlog.isClaiming = true;
    try {
      if (backlog.isInDoubt) await this.#putBackUnheard(appNumber, backlog);
      backlog.isInDoubt = false;
      await work();
      backlog.isClaiming = false;
      this.#pump(appNumber, backlog);
    } catch (error) {
      if (!isRefusal(error)) backlog.isInDoubt = true;
      this.#parts.log.error({ err: error }, "could not claim runs; retrying");
      backlog.hasMore = true;
      backlog.isClaiming = false;
    }
  }

  /** Requeues runs of a claim whose answer was lost. */
  async #putBackUnheard(appNumber: number, backlog: Backlog): Promise<void> {
    const { store, owner, log } = this.#parts;
    const unheard = await this.#unheard(appNumber);
    if (unheard.length === 0) return;
    log.warn(
      { count: unheard.length },
      "requeuing claimed runs: the storage's answer to the claim never arrived",
    );
    await store.claims.release(unheard.map((claim) => ({ ...claim, owner, isInterruption: false })));
    backlog.hasMore = true;
  }

  /** Claimed runs of one app, or of all apps, that this process does not know. */
  async #unheard(appNumber: number | null): Promise<HeldClaim[]> {
    const { store, owner, executor } = this.#parts;
    const held = await store.claims.held({ appNumber, owner });
    // Read after the query: runs claimed meanwhile are known by now, and ended ones have another state.
    const known = executor.claimed();
    return held.filter(({ id }) => !known.has(id));
  }

  /**
   * Finds runs that are claimed but not executed, or queued unnoticed: a write that was given up may be done long after.
   * Runs that are being claimed look the same, so each such app is checked again when no claim is in progress.
   */
  async #review(): Promise<void> {
    await this.#lookForWork();
    for (const appNumber of new Set((await this.#unheard(null)).map((claim) => claim.appNumber))) {
      const backlog = this.#backlog(appNumber);
      backlog.isInDoubt = true;
      if (!backlog.isClaiming) void this.#work(appNumber, backlog, async () => undefined);
    }
  }

  async #claim(target: RunTarget, backlog: Backlog, room: number): Promise<void> {
    const { store, owner, owners, clock } = this.#parts;
    const { appNumber } = target;
    const wasAway = backlog.restsUntil > 0;
    backlog.restsUntil = 0;
    const { runs, hasMore, isRefused } = await store.claims.claim({
      appNumber,
      owner,
      holder: owners?.holderOf(appNumber) ?? null,
      // A single run shows whether the blob store is back.
      limit: wasAway ? 1 : room,
      maxBytes: MAX_CLAIM_BYTES,
    });
    // Another service may own the app by now.
    if (isRefused) void owners?.sync();
    if (hasMore) backlog.hasMore = true;
    for await (const { claimed, end } of withInputs(runs, this.#parts)) {
      if (end === BACK) {
        backlog.restsUntil = clock.monotonic() + REST_MS;
        backlog.hasMore = true;
      }
      const current = this.#parts.target(appNumber) ?? target;
      if (end || claimed.run.versionId === current.versionId) this.#begin(claimed, current, end);
      else await this.#beginEarlier(claimed, current);
    }
  }

  /** Starts a run of an earlier version; requeues it if the version cannot be looked up now. */
  async #beginEarlier(claimed: ClaimedRun, current: RunTarget): Promise<void> {
    const { appNumber, versionId } = claimed.run;
    try {
      this.#begin(claimed, (await this.#parts.versionTarget(appNumber, versionId)) ?? current, null);
    } catch (error) {
      this.#parts.log.error({ err: error, versionId }, "could not look up the version of a run");
      this.#begin(claimed, current, BACK);
    }
  }

  /** Executes a claimed run, or ends it with `end`. */
  #begin({ run, fence, payload, ...stored }: ClaimedRun, target: RunTarget, end: Outcome | null): void {
    const { executor, owner } = this.#parts;
    const { id, functionName, ip, webhookEndpoint: endpoint } = run;
    const { attempt, interruptions, createdAt, isAsync } = run;
    const { terms, trace } = run;
    const { input, isBare, sealedSecret } = payload;
    const body = Buffer.from(input ?? []);
    const webhook = endpoint === null ? null : { endpoint, sealedSecret };
    const http = httpOf(run, input, target.config.limits);
    const caller = callerOf(run);
    const request: RunRequest = {
      id,
      target,
      functionName,
      body,
      isBare,
      ip,
      caller,
      webhook,
      terms,
      trace,
      ...http,
    };
    const times = { attempt, interruptions, createdAt };
    const claim: Claim = { owner, fence, isAsync, ...times, keyHash: null, ...stored };
    // The caller of a sync run was connected to the service that died.
    const isOver = !isAsync || interruptions > MAX_INTERRUPTIONS;
    const code = lateness(terms, hasRun(run), this.#parts.clock.now());
    const late: Outcome | null = code && { kind: "late", code };
    const outcome: Outcome | null = isOver ? { kind: "refused", code: "interrupted" } : (late ?? end);
    void this.#hold(
      outcome ? executor.endClaimed(request, claim, outcome) : executor.executeClaimed(request, claim, null),
    );
  }

  /** Lets runs begin that were delayed until now, by any service. One at a time, as with `#lookForWork`. */
  #makeDue(): Promise<void> {
    this.#makingDue ??= this.#makeAllDue().finally(() => (this.#makingDue = null));
    return this.#makingDue;
  }

  async #makeAllDue(): Promise<void> {
    const { store, clock } = this.#parts;
    this.#dueAt = Number.POSITIVE_INFINITY;
    for (;;) {
      const now = clock.now();
      const next = await store.claims.nextDueAt();
      if (next === null || next > now || this.#isStopping) return;
      const appNumbers = await store.claims.makeDue({ now, limit: MAX_DUE });
      for (const appNumber of appNumbers) if (this.#parts.target(appNumber)) this.wake(appNumber);
      // Another service has locked the rest, and wakes the apps.
      if (appNumbers.length === 0) return;
    }
  }

  /** One at a time: with a hanging database, queries would pile up. */
  #lookForWork(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = null));
    return this.#looking;
  }

  async #look(): Promise<void> {
    const waiting = await this.#parts.store.claims.backlog();
    const isServed = (appNumber: number): boolean => this.#parts.target(appNumber) !== null;
    for (const appNumber of waiting.filter(isServed)) this.wake(appNumber);
    const others = waiting.filter((appNumber) => !isServed(appNumber));
    if (others.length > 0) await this.#lookAfter(others);
  }

  /** For apps not served here: takes those without an owner, and ends the runs of deleted ones. */
  async #lookAfter(appNumbers: readonly number[]): Promise<void> {
    await this.#parts.owners?.lookAfter(appNumbers);
    await this.#parts.endOrphans(appNumbers);
  }

  #every(ms: number, work: () => Promise<void>): void {
    const look = (): void =>
      void work().catch((error: unknown) => this.#parts.log.error({ err: error }, UNREACHED));
    this.#timers.push(this.#parts.clock.every(ms, look));
  }
}
