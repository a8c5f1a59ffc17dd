import type { Clock } from "../kit/clock.ts";
import type { Store } from "../store/store.ts";

/** Repeats what it is given until that removes less than it may. */
export type Step = (remove: (limit: number) => Promise<number>) => Promise<void>;

/** Does its work on its own: what fails there ends nothing else. */
export type Attempt = (work: () => Promise<void>) => Promise<void>;

/** After every run there is. */
const FAR_MS = 2 ** 47;
/** So many rounds in which nothing was left: the last records of an app are written a moment behind its end. */
const QUIET_ROUNDS = 2;
/** Whoever deleted an app, here or in another service, has found its files by then; so often is looked again. */
const LOOK_MS = 3600 * 1000;

/**
 * What deleted apps have left in the database: lines, inputs, results, transcripts, builds. It goes at once and
 * whole, but for what runs that have not ended yet still need.
 */
export class LeftBehind {
  readonly #store: Store;
  readonly #clock: Pick<Clock, "now">;
  readonly #apps = new Map<number, { quietRounds: number }>();
  #lookAt = 0;

  constructor(store: Store, clock: Pick<Clock, "now">) {
    this.#store = store;
    this.#clock = clock;
  }

  /** An app was deleted, or the last of its processes is gone. */
  add(appNumber: number): void {
    this.#apps.set(appNumber, { quietRounds: 0 });
  }

  /** One round, each app on its own. */
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
        // A run that is cancelled in a moment will leave something too.
        const isQuiet = removed === 0 && (await this.#store.versions.inUse(appNumber)).length === 0;
        watch.quietRounds = isQuiet ? watch.quietRounds + 1 : 0;
        // One that was added again meanwhile is watched anew.
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

  /** What a service that ended in between has left, of apps deleted before that time. */
  async #look(before: number): Promise<void> {
    const { retention, versions } = this.#store;
    for (const appNumber of await retention.leftBehind({ before })) {
      // Its versions are still needed: to find its files, or by a run that has not ended.
      if (this.#apps.has(appNumber) || (await versions.inUse(appNumber)).length > 0) continue;
      await versions.remove((await versions.list(appNumber)).map(({ id }) => id));
      this.add(appNumber);
    }
  }
}
