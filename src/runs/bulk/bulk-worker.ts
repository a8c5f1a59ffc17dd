import type { Clock, Timer } from "../../kit/clock.ts";
import { forEachConcurrently } from "../../kit/concurrency.ts";
import { RUN_AHEAD_MS, UuidSource } from "../../kit/ids.ts";
import type { Log } from "../../kit/log.ts";
import { type SkipReason, statesOf } from "../../model/bulk-job.ts";
import { AppError } from "../../model/errors.ts";
import type { RunKey } from "../../model/run.ts";
import type { HeldJob } from "../../store/runs/bulk-jobs.ts";
import type { Store } from "../../store/store.ts";
import type { StorageWatch } from "../../store/upkeep/storage-watch.ts";
import { filterOf } from "./bulk-filter.ts";

type BulkParts = {
  readonly store: Store;
  /** Runs are accepted by a clock that cannot be set. */
  readonly clock: Clock;
  readonly log: Log;
  /** This node. */
  readonly owner: string;
  readonly reserve: Pick<StorageWatch, "refusal">;
  /** Whether the app's queue takes no runs. */
  readonly isDraining: (appNumber: number) => boolean;
  /** Whether this node serves the app: it executes its runs, so it can cancel them. */
  readonly serves: (appNumber: number) => boolean;
  /** The store holds new runs of that app. */
  readonly wake: (appNumber: number) => void;
  /** Throws if the run has ended, or cannot be cancelled here. */
  readonly cancel: (run: RunKey) => Promise<void>;
};

/** How often the store is looked at for jobs that others have made, or left. */
const LOOK_MS = 1_000;
const MOST_JOBS = 20;
/** Open jobs that are looked through for those that this node can carry out now. */
const LOOKED_AT = 1_000;
/** Runs of a step. One that is tried again copies its arguments, in one transaction. */
const AT_ONCE = 100;
const CANCELLED_AT_ONCE = 16;

/**
 * Carries out bulk jobs in the background, those of the apps that this node serves, and those of apps that no node
 * serves. Each step is stored with what it has done, so that a job goes on where it was, here or on another node.
 */
export class BulkWorker {
  readonly #parts: BulkParts;
  readonly #ids = new UuidSource(RUN_AHEAD_MS);
  #timer: Timer | null = null;
  #looking: Promise<void> | null = null;
  #isAsked = false;
  #isStopping = false;
  /** Jobs that are not carried out here any more, which the store has not been told yet. */
  #dropped: HeldJob[] = [];

  constructor(parts: BulkParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#timer = this.#parts.clock.every(LOOK_MS, () => this.wake());
    this.wake();
  }

  /** Resolves when the step at hand is stored; another node may go on. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#timer?.cancel();
    await this.#looking;
  }

  /** There is a new job. */
  wake(): void {
    this.#isAsked = true;
    this.#looking ??= this.#look().finally(() => (this.#looking = null));
  }

  async #look(): Promise<void> {
    while (this.#isAsked && !this.#isStopping) {
      try {
        await this.#carryOut();
      } catch (error) {
        // At the next look.
        this.#isAsked = false;
        if (!this.#isStopping)
          this.#parts.log.error({ err: error }, "could not carry out bulk jobs; retrying");
      }
    }
  }

  /** All jobs that are this node's, a step of each in turn. */
  async #carryOut(): Promise<void> {
    await this.#letGo();
    const jobs = new Map<string, HeldJob>();
    try {
      await this.#claim(jobs);
      while (jobs.size > 0 && !this.#isStopping) {
        for (const [id, job] of jobs) {
          const left = await this.#stepSafely(job);
          if (left) jobs.set(id, left);
          else jobs.delete(id);
        }
        // A long job keeps no other waiting, and none that has become another node's.
        if (this.#isAsked) await this.#claim(jobs);
      }
    } finally {
      // If the store has failed, they are let go when it answers again: another node may be meant to go on.
      this.#dropped.push(...jobs.values());
    }
    await this.#letGo();
  }

  /** Adds the jobs that are this node's by now to those that it holds, and drops those that are not. */
  async #claim(jobs: Map<string, HeldJob>): Promise<void> {
    const { store, owner } = this.#parts;
    this.#isAsked = false;
    const isAlone = store.kind === "sqlite";
    const ours = new Set((await this.#ours()).map(({ id }) => id));
    for (const id of ours) {
      const job = jobs.get(id) ?? (await store.bulkJobs.claim({ id, owner, isAlone }));
      if (job) jobs.set(id, job);
    }
    for (const [id, job] of jobs) {
      if (ours.has(id)) continue;
      jobs.delete(id);
      this.#dropped.push(job);
    }
    await this.#letGo();
  }

  /** Lets jobs go that were dropped; those of which the store learns nothing now, later. */
  async #letGo(): Promise<void> {
    for (let job = this.#dropped[0]; job; job = this.#dropped[0]) {
      await this.#parts.store.bulkJobs.letGo(job);
      this.#dropped.shift();
    }
  }

  /** Those of apps that this node serves, or none. One that cannot go on now takes no other's place. */
  async #ours() {
    const { store, serves } = this.#parts;
    const open = (await store.bulkJobs.open(LOOKED_AT)).filter((job) => !this.#mustWait(job));
    const unserved = new Set(open.flatMap(({ appNumber }) => (serves(appNumber) ? [] : appNumber)));
    if (unserved.size === 0) return open.slice(0, MOST_JOBS);
    const places = await store.appOwners.list([...unserved]);
    const ofOthers = new Set(places.filter(({ isAlive }) => isAlive).map(({ appNumber }) => appNumber));
    return open.filter(({ appNumber }) => serves(appNumber) || !ofOthers.has(appNumber)).slice(0, MOST_JOBS);
  }

  /** No run is accepted now, as for callers. */
  #mustWait({ action, appNumber }: Pick<HeldJob, "action" | "appNumber">): boolean {
    const { reserve, isDraining } = this.#parts;
    return action === "retry" && (reserve.refusal !== null || isDraining(appNumber));
  }

  /** A job that cannot go on must not stop the others. */
  async #stepSafely(job: HeldJob): Promise<HeldJob | null> {
    try {
      return await this.#step(job);
    } catch (error) {
      this.#parts.log.error({ err: error, job: job.id }, "a bulk job could not go on; retrying");
      this.#dropped.push(job);
      await this.#letGo();
      return null;
    }
  }

  /** One step; returns the job as it is then, null if it is over, or goes on at another node or later. */
  async #step(job: HeldJob): Promise<HeldJob | null> {
    const { store, clock } = this.#parts;
    const { id, owner, fence } = job;
    const holder = { id, owner, fence };
    if (job.pending) return await this.#cancelPending(job, job.pending);
    const states = statesOf(job);
    const state = states[job.stage];
    if (state === undefined) {
      await store.bulkJobs.end({ ...holder, state: "done", error: null, now: clock.now() });
      return null;
    }
    // Goes on at a later look.
    if (this.#mustWait(job)) {
      this.#dropped.push(job);
      await this.#letGo();
      return null;
    }
    const filter = filterOf(job, state);
    const { runs, next } = await store.runs.pageOfApp({
      ...filter,
      appNumber: job.appNumber,
      limit: AT_ONCE,
      ...(job.cursor !== null && { before: job.cursor }),
    });
    const ids = runs.map((run) => run.id);
    const place = next === null ? { stage: job.stage + 1, cursor: null } : { stage: job.stage, cursor: next };
    const step = { ...holder, ...place, now: clock.now() };
    const isHeld = await this.#do(job, ids, step);
    return isHeld
      ? { ...job, ...place, pending: job.action === "cancel" && ids.length > 0 ? ids : null }
      : null;
  }

  /** False if another service has the job, or it was cancelled. */
  async #do(job: HeldJob, ids: readonly string[], step: Place): Promise<boolean> {
    const { store, wake } = this.#parts;
    const { action, appNumber } = job;
    if (action === "delete") return await store.bulkJobs.remove({ ...step, appNumber, ids });
    if (action === "cancel" || ids.length === 0) {
      const pending = ids.length > 0 ? ids : null;
      return await store.bulkJobs.note({ ...step, pending, done: 0, skipped: [] });
    }
    // The pages come newest first; new ids grow in the order of the old ones.
    const runs = ids.toReversed().map((id) => ({ id, newId: this.#ids.next(step.now) }));
    const isHeld = await store.bulkJobs.retry({ ...step, appNumber, runs });
    if (isHeld) wake(appNumber);
    return isHeld;
  }

  /** Their ids are stored, so that each is counted once even if the service dies. */
  async #cancelPending(job: HeldJob, ids: readonly string[]): Promise<HeldJob | null> {
    const { store, clock } = this.#parts;
    const skipped: SkipReason[] = [];
    let done = 0;
    await forEachConcurrently(ids, CANCELLED_AT_ONCE, async (id) => {
      const reason = await this.#cancel({ appNumber: job.appNumber, id });
      if (reason === null) done += 1;
      else skipped.push(reason);
    });
    const after = { ...job, pending: null };
    const isHeld = await store.bulkJobs.note({ ...after, done, skipped, now: clock.now() });
    return isHeld ? after : null;
  }

  async #cancel(key: RunKey): Promise<SkipReason | null> {
    const { store, cancel } = this.#parts;
    try {
      await cancel(key);
      return null;
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      if (error.code === "run_not_found") return "gone";
      if (error.code === "not_available") return "other_node";
      if (error.code !== "run_finished") throw error;
      // Before a crash, perhaps.
      const run = await store.runs.find(key);
      return run?.state === "cancelled" ? null : "has_ended";
    }
  }
}

type Place = Pick<HeldJob, "id" | "owner" | "fence" | "stage" | "cursor"> & { readonly now: number };
