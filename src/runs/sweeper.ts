import { type Clock, pause, steady } from "../kit/clock.ts";
import type { Store } from "../store/store.ts";
import type { Log } from "../kit/log.ts";
import type { AppRetention } from "../model/app.ts";

/** Repeats a removal until it removes less than its limit. */
type Step = (remove: (limit: number) => Promise<number>) => Promise<void>;

/** Runs the work; a failure does not stop the rest. */
type Attempt = (work: () => Promise<void>) => Promise<void>;

/** Later than any run. */
const FAR_MS = 2 ** 47;
/** Rounds that find nothing before an app is done: its last records are written shortly after its end. */
const QUIET_ROUNDS = 2;
/** How often other services' deleted apps are checked; by then the deleting service has found their files. */
const LOOK_MS = 3600 * 1000;

/** Removes what deleted apps have left in the database, except what unfinished runs still need. */
export class LeftBehind {
  readonly #store: Store;
  readonly #clock: Pick<Clock, "now">;
  readonly #apps = new Map<number, { quietRounds: number }>();
  #lookAt = 0;

  constructor(store: Store, clock: Pick<Clock, "now">) {
    this.#store = store;
    this.#clock = clock;
  }

  /** An app was deleted, or its last process has ended. */
  add(appNumber: number): void {
    this.#apps.set(appNumber, { quietRounds: 0 });
  }

  async sweep(step: Step, attempt: Attempt): Promise<void> {
    const now = this.#clock.now();
    if (now >= this.#lookAt) {
      await attempt(async () => {
        await this.#look(now - LOOK_MS);
        this.#lookAt = now + LOOK_MS;
      });
    }
    for (const [appNumber, watch] of this.#apps) {
      await attempt(async () => {
        const removed = await this.#purge(appNumber, step);
        // A run that is about to be cancelled will leave data too.
        const isQuiet = removed === 0 && (await this.#store.versions.inUse(appNumber)).length === 0;
        watch.quietRounds = isQuiet ? watch.quietRounds + 1 : 0;
        // Unless it was added again meanwhile.
        const isOver = watch.quietRounds >= QUIET_ROUNDS && this.#apps.get(appNumber) === watch;
        if (isOver) this.#apps.delete(appNumber);
      });
    }
  }

  async #purge(appNumber: number, step: Step): Promise<number> {
    const { logs, retention, builds } = this.#store;
    let removed = 0;
    const trimAll = async (limit: number): Promise<number> =>
      (await logs.trim({ appNumber, bytes: Number.POSITIVE_INFINITY, limit })).lineCount;
    const counting = async (count: Promise<number>): Promise<number> => {
      removed += await count;
      return await count;
    };
    await step((limit) => counting(trimAll(limit)));
    await step((limit) => counting(retention.expire({ appNumber, cutoff: FAR_MS, limit })));
    await step(() => counting(builds.prune({ appNumber, keep: 0 })));
    return removed;
  }

  /** Finds apps deleted before that time whose service ended before it had removed everything. */
  async #look(before: number): Promise<void> {
    const { retention, versions } = this.#store;
    for (const appNumber of await retention.leftBehind({ before })) {
      // Its versions are still needed, to find its files or by unfinished runs.
      if (this.#apps.has(appNumber) || (await versions.inUse(appNumber)).length > 0) continue;
      await versions.remove((await versions.list(appNumber)).map(({ id }) => id));
      this.add(appNumber);
    }
  }
}

export type SweeperParts = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly maxRuns: number;
  readonly maxStorageBytes: number;
  readonly maxLogBytes: number;
  readonly recordRetentionMs: number;
  readonly auditRetentionMs: number;
  /** The retention of each app of this service. */
  readonly retentions: () => readonly AppRetention[];
  /** Whether this service applies the limits of the whole installation. */
  readonly isFirst: () => boolean;
};

const EVERY_MS = 10_000;
/** Rows per statement: few, so that no 202 waits long for the database. */
const STEP = 200;
const REST_MS = 20;
/** Free pages kept for the next writes; shrinking and growing the file would cost more. */
const KEPT_FREE_BYTES = 8 * 1024 * 1024;
/** Bytes moved per step, about 5 ms of the writer. */
const GIVE_BACK_BYTES = 512 * 1024;
/** Normally the log has a few megabytes; at this size, a long read prevents folding it. */
const MAX_LOG_BYTES = 32 * 1024 * 1024;
const DAY_MS = 24 * 3600 * 1000;
const KEY_MS = DAY_MS;

/** Removes expired data in small steps: by age, and the oldest first where a limit is exceeded. */
export class Sweeper {
  readonly #parts: SweeperParts;
  readonly #clock: Clock;
  readonly #stopping = new AbortController();
  readonly #leftBehind: LeftBehind;
  /** Freed space reaches the disk when the log is folded. */
  #isUnfolded = false;
  /** Ends the pause before the next round. */
  #waking = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(parts: SweeperParts) {
    this.#parts = parts;
    this.#clock = cautious(parts.clock);
    this.#leftBehind = new LeftBehind(parts.store, this.#clock);
  }

  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  purge(appNumber: number): void {
    this.#leftBehind.add(appNumber);
    this.#waking.abort();
  }

  /** One round over everything. Failures are thrown at the end, so that they stop nothing else. */
  async sweep(): Promise<void> {
    const failures: unknown[] = [];
    const attempt: Attempt = async (work) => {
      try {
        await work();
      } catch (error) {
        failures.push(error);
      }
    };
    const step: Step = (remove) => attempt(() => this.#step(remove));
    await this.#leftBehind.sweep((remove) => this.#step(remove), attempt);
    await this.#expire(step);
    if (this.#parts.isFirst()) await this.#keepCaps(step);
    await attempt(() => this.#keepLogShares(step));
    await attempt(() => this.#giveBack());
    if (failures.length > 1) throw new AggregateError(failures, `${failures.length} steps failed`);
    if (failures.length === 1) throw failures[0];
  }

  async #expire(step: Step): Promise<void> {
    const { store, retentions, isFirst, recordRetentionMs, auditRetentionMs } = this.#parts;
    const { retention, logs, auditEntries, keyLines, dailyUsage, quotaCounts } = store;
    const now = this.#clock.now();
    for (const { appNumber, retentionMs } of retentions()) {
      await step((limit) => retention.expire({ appNumber, cutoff: now - retentionMs, limit }));
    }
    if (!isFirst()) return;
    const before = now - recordRetentionMs;
    await step((limit) => retention.removeRuns({ cutoff: before, limit }));
    await step((limit) => store.lineBatches.remove({ cutoff: before, limit }));
    await step((limit) => store.openaiBatches.expire({ now, limit }));
    await step((limit) => store.batchFiles.expire({ now, limit }));
    await step((limit) => retention.removeKeys({ before: now - KEY_MS, limit }));
    await step((limit) => retention.removeDeliveries({ before, limit }));
    await step((limit) => logs.expire({ before, limit }));
    await step((limit) => keyLines.removeStarts({ now, limit }));
    await step((limit) => dailyUsage.expire({ now, limit }));
    await step(() => quotaCounts.prune());
    await step((limit) => auditEntries.expire({ before: now - auditRetentionMs, limit }));
  }

  async #keepCaps(step: Step): Promise<void> {
    const { maxRuns, maxStorageBytes } = this.#parts;
    const { retention } = this.#parts.store;
    await step(async (limit) => {
      const tooMany = Math.min(limit, (await retention.usage()).runs - maxRuns);
      return tooMany > 0 ? await retention.removeOldest({ limit: tooMany, keep: "nothing" }) : 0;
    });
    await step(async (limit) => {
      const { bytes } = await retention.usage();
      return bytes > maxStorageBytes ? await retention.removeOldest({ limit, keep: "record" }) : 0;
    });
  }

  async #keepLogShares(step: Step): Promise<void> {
    const { store, maxLogBytes, retentions, isFirst } = this.#parts;
    const shares = new Map(retentions().map((app) => [app.appNumber, app.maxLogBytes]));
    const ofOthers = isFirst() ? maxLogBytes : Number.POSITIVE_INFINITY;
    for (const { appNumber, bytes } of await store.logs.usedByApp()) {
      let tooMuch = bytes - (shares.get(appNumber) ?? ofOthers);
      await step(async (limit) => {
        if (tooMuch <= 0) return 0;
        const { lineCount, freedBytes } = await store.logs.trim({ appNumber, bytes: tooMuch, limit });
        tooMuch -= freedBytes;
        return lineCount;
      });
    }
    if (!isFirst()) return;
    await step(async (limit) => {
      const tooMuch = (await store.logs.usedBytes()) - maxLogBytes;
      if (tooMuch <= 0) return 0;
      // From the app that has most, step by step.
      return (await store.logs.trim({ appNumber: null, bytes: tooMuch, limit })).lineCount;
    });
  }

  /** Returns free pages of the database's file to the disk, while no reader keeps the log from being folded. */
  async #giveBack(): Promise<void> {
    const { space } = this.#parts.store;
    let freeBytes = await space.freeBytes();
    while (!this.#stopping.signal.aborted) {
      if ((await space.logBytes()) > MAX_LOG_BYTES && (await space.foldLog()) > MAX_LOG_BYTES) return;
      if (freeBytes <= KEPT_FREE_BYTES) break;
      const leftBytes = await space.giveBack(GIVE_BACK_BYTES);
      // This database cannot return space.
      if (leftBytes >= freeBytes) break;
      freeBytes = leftBytes;
      this.#isUnfolded = true;
      await this.#rest();
    }
    if (this.#isUnfolded) this.#isUnfolded = (await space.foldLog()) > 0;
  }

  async #step(remove: (limit: number) => Promise<number>): Promise<void> {
    while (!this.#stopping.signal.aborted && (await remove(STEP)) === STEP) await this.#rest();
  }

  async #run(): Promise<void> {
    for (;;) {
      const { signal } = this.#stopping;
      await pause(this.#clock, EVERY_MS, AbortSignal.any([signal, this.#waking.signal]));
      this.#waking = new AbortController();
      if (signal.aborted) return;
      try {
        await this.sweep();
      } catch (error) {
        this.#parts.log.error({ err: error }, "could not remove expired data; retrying");
      }
    }
  }

  async #rest(): Promise<void> {
    await pause(this.#clock, REST_MS, this.#stopping.signal);
  }
}

/** The earlier of two clocks, one steady and one that may be set: a wrong date must not delete data. */
function cautious(clock: Clock): Clock {
  const unset = steady(clock);
  return { ...unset, now: () => Math.min(unset.now(), clock.now()) };
}
