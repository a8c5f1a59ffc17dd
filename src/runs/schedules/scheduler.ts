import type { Clock, Timer } from "../../kit/clock.ts";
import { RUN_AHEAD_MS, UuidSource } from "../../kit/ids.ts";
import type { Log } from "../../kit/log.ts";
import { AppError } from "../../model/errors.ts";
import type { RunKey } from "../../model/run.ts";
import type { Schedule } from "../../model/schedule.ts";
import { dueTimes } from "../../model/schedule-times.ts";
import type { DueSchedule } from "../../store/schedules/firings.ts";
import type { Store } from "../../store/store.ts";
import type { Tracer } from "../traces/tracer.ts";
import type { StorageWatch } from "../../store/upkeep/storage-watch.ts";

type SchedulerParts = {
  readonly store: Store;
  /** Shows the date, which may be set. */
  readonly clock: Clock;
  readonly log: Log;
  /** This node. */
  readonly owner: string;
  readonly reserve: Pick<StorageWatch, "refusal">;
  /** The store holds new runs of that app. */
  readonly wake: (appNumber: number) => void;
  readonly tracer: Pick<Tracer, "fire">;
  /** Throws if the run has ended, or cannot be cancelled here. */
  readonly cancel: (run: RunKey) => Promise<void>;
};

/** How often the store is looked at, besides the times at which schedules fire: others may have changed them. */
const LOOK_MS = 1_000;
/** Schedules that one write fires. */
const AT_ONCE = 100;
/** Times that begin, and runs that are cancelled, at each look. */
const PER_LOOK = 100;
/** How long after the last schedules the first ones have their old firings removed again. */
const PRUNE_MS = 60_000;

const UNREACHED = "could not fire schedules; retrying";

/**
 * Starts the runs of schedules, those of any app: of several nodes, the one that writes the firing first starts the run,
 * and the owner of the app finds it in the queue.
 */
export class Scheduler {
  readonly #parts: SchedulerParts;
  readonly #ids = new UuidSource(RUN_AHEAD_MS);
  #every: Timer | null = null;
  /** For the next time at which a schedule fires. */
  #next: Timer | null = null;
  #looking: Promise<void> | null = null;
  #isStopping = false;
  /** The schedule up to which old firings were removed. */
  #prunedTo = 0;
  /** Monotonic. */
  #pruneAt = 0;

  constructor(parts: SchedulerParts) {
    this.#parts = parts;
  }

  /** Begins to fire. */
  start(): void {
    this.#every = this.#parts.clock.every(LOOK_MS, () => this.wake());
    this.wake();
  }

  /** Fires nothing more; resolves when a firing under way is stored. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#every?.cancel();
    this.#next?.cancel();
    await this.#looking;
  }

  /** A schedule may fire earlier than was known. */
  wake(): void {
    void this.look();
  }

  /** Fires the schedules that are due; one look at a time. Never rejects. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = null));
    return this.#looking;
  }

  /** Starts a run of a schedule now, whatever its other runs do; returns the run's id. */
  async fireNow({ number: schedule, appNumber }: Schedule): Promise<string> {
    const { store, clock, reserve, wake } = this.#parts;
    if (reserve.refusal !== null) throw new AppError("storage_unavailable", { message: reserve.refusal });
    const now = clock.now();
    const runId = this.#ids.next(now);
    const trace = this.#parts.tracer.fire();
    if (!(await store.firings.fireNow({ schedule, at: now, runId, trace, now })))
      throw new AppError("app_not_found");
    wake(appNumber);
    return runId;
  }

  async #look(): Promise<void> {
    const { store, clock, reserve, log } = this.#parts;
    if (this.#isStopping) return;
    try {
      const now = clock.now();
      let { nextAt, hasOpen } = await store.firings.outlook();
      // What passes while the disk is full is made up for as `catch_up` says.
      if (reserve.refusal === null && nextAt !== null && nextAt <= clock.now()) {
        while ((await this.#fireDue()) && !this.#isStopping);
        ({ nextAt, hasOpen } = await store.firings.outlook());
      }
      if (hasOpen && reserve.refusal === null) await this.#startWaiting();
      if (hasOpen) await this.#cancelSuperseded();
      if (nextAt !== null) await this.#prune();
      this.#setTimer(nextAt, now);
    } catch (error) {
      if (!this.#isStopping) log.error({ err: error }, UNREACHED);
    }
  }

  /** Fires some of the schedules that are due; returns whether there may be more. */
  async #fireDue(): Promise<boolean> {
    const { store, clock, log, wake } = this.#parts;
    const now = clock.now();
    const due = (await store.firings.due({ now, limit: AT_ONCE })).flatMap((schedule) =>
      this.#planned(schedule, now),
    );
    if (due.length === 0) return false;
    const { appNumbers, runs, moved } = await store.firings.fire({ due, now });
    if (runs > 0) log.debug({ count: runs }, "schedules have started runs");
    for (const appNumber of appNumbers) wake(appNumber);
    // Without any, another node is firing them.
    return due.length === AT_ONCE && moved > 0;
  }

  #planned(schedule: Schedule, now: number): DueSchedule[] {
    const { number, nextAt: expectedAt, updatedAt } = schedule;
    if (expectedAt === null) return [];
    const { times, nextAt, fireAt } = this.#timesOf({ ...schedule, nextAt: expectedAt }, now);
    const { tracer } = this.#parts;
    const fired = times.map((at) => ({ at, runId: this.#ids.next(now), trace: tracer.fire() }));
    return [{ number, updatedAt, expectedAt, times: fired, nextAt, fireAt }];
  }

  /** One that cannot be read, because another release wrote it, fires no more: it must not stop the others. */
  #timesOf(schedule: Schedule & { readonly nextAt: number }, now: number): ReturnType<typeof dueTimes> {
    try {
      return dueTimes(schedule, now);
    } catch (error) {
      const { appNumber, name } = schedule;
      this.#parts.log.error(
        { err: error, appNumber, schedule: name },
        "a schedule cannot be read, and fires no more",
      );
      return { times: [], nextAt: null, fireAt: null };
    }
  }

  /** Starts runs that waited for the end of others. */
  async #startWaiting(): Promise<void> {
    const { store, clock, wake, tracer } = this.#parts;
    const keys = await store.firings.startable(PER_LOOK);
    if (keys.length === 0) return;
    const now = clock.now();
    const waiting = keys.map((key) => ({ ...key, runId: this.#ids.next(now), trace: tracer.fire() }));
    const { appNumbers } = await store.firings.start({ waiting, now });
    for (const appNumber of appNumbers) wake(appNumber);
  }

  /** Cancels runs whose place a later one has taken, those that are queued or executed here. */
  async #cancelSuperseded(): Promise<void> {
    const { store, owner, cancel, log } = this.#parts;
    const superseded = await store.firings.superseded({ owner, limit: PER_LOOK });
    const ended = superseded.filter(({ run }) => run === null);
    if (ended.length > 0) await store.firings.end(ended);
    const tell = (error: unknown): void => log.debug({ err: error }, "could not cancel a run");
    // One that cannot be cancelled has ended by the next look, or goes to another node.
    await Promise.all(superseded.flatMap(({ run }) => (run ? cancel(run).catch(tell) : [])));
  }

  /** Removes old firings of the next schedules. */
  async #prune(): Promise<void> {
    const { store, clock } = this.#parts;
    const now = clock.monotonic();
    if (now < this.#pruneAt) return;
    const after = await store.firings.prune({ after: this.#prunedTo, limit: AT_ONCE });
    this.#prunedTo = after ?? 0;
    this.#pruneAt = now + (after === null ? PRUNE_MS : 0);
  }

  #setTimer(nextAt: number | null, lookedAt: number): void {
    const { clock } = this.#parts;
    this.#next?.cancel();
    // It was due, but the disk is full, or another node is firing it.
    if (nextAt !== null && nextAt <= lookedAt) return;
    // Later times are left to the next looks: the date may be set meanwhile.
    const leftMs = nextAt === null ? LOOK_MS : nextAt - clock.now();
    if (leftMs < LOOK_MS && !this.#isStopping)
      this.#next = clock.after(Math.max(1, leftMs), () => this.wake());
  }
}
