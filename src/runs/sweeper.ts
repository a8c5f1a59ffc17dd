import type { Clock } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { pause } from "../kit/pause.ts";
import { steady } from "../kit/steady-clock.ts";
import type { Store } from "../store/store.ts";

export type SweeperParts = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly maxRuns: number;
  readonly maxStorageBytes: number;
  /** How long each app wants its results kept. */
  readonly apps: () => readonly { readonly appNumber: number; readonly retentionMs: number }[];
  readonly everyMs?: number;
};

const EVERY_MS = 10_000;
/** Rows at once: few enough that no 202 waits long for its turn at the database. */
const STEP = 200;
const REST_MS = 20;
const DAY_MS = 24 * 3600 * 1000;
const RECORD_MS = 30 * DAY_MS;
const KEY_MS = DAY_MS;
/** Of all lines that apps printed. */
const MAX_LOG_BYTES = 2_000_000_000;

/**
 * Removes what is kept no longer, in small steps: by age, and by the installation's caps the oldest first. By a
 * clock that does not jump: a wrong date must not sweep everything away.
 */
export class Sweeper {
  readonly #parts: SweeperParts;
  readonly #clock: Clock;
  readonly #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(parts: SweeperParts) {
    this.#parts = parts;
    this.#clock = steady(parts.clock);
  }

  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  /** One round over everything. */
  async sweep(): Promise<void> {
    const { store, apps } = this.#parts;
    const now = this.#clock.now();
    for (const { appNumber, retentionMs } of apps()) {
      await this.#step((limit) => store.retention.expire({ appNumber, cutoff: now - retentionMs, limit }));
    }
    await this.#step((limit) => store.retention.removeRuns({ cutoff: now - RECORD_MS, limit }));
    await this.#step((limit) => store.retention.removeKeys({ before: now - KEY_MS, limit }));
    await this.#step((limit) => store.retention.removeDeliveries({ before: now - RECORD_MS, limit }));
    await this.#step((limit) => store.logs.expire({ before: now - RECORD_MS, limit }));
    await this.#keepCaps();
  }

  async #keepCaps(): Promise<void> {
    const { store, maxRuns, maxStorageBytes } = this.#parts;
    await this.#step(async (limit) => {
      const { runs } = await store.retention.usage();
      const tooMany = Math.min(limit, runs - maxRuns);
      return tooMany > 0 ? await store.retention.removeOldest({ limit: tooMany, keep: "nothing" }) : 0;
    });
    await this.#step(async (limit) => {
      const { bytes } = await store.retention.usage();
      return bytes > maxStorageBytes ? await store.retention.removeOldest({ limit, keep: "record" }) : 0;
    });
    await this.#step(async (limit) => {
      const bytes = await store.logs.usedBytes();
      return bytes > MAX_LOG_BYTES ? await store.logs.removeOldest({ limit }) : 0;
    });
  }

  /** Until a step finds less than it may remove. */
  async #step(remove: (limit: number) => Promise<number>): Promise<void> {
    while (!this.#stopping.signal.aborted && (await remove(STEP)) === STEP) await this.#rest(REST_MS);
  }

  async #run(): Promise<void> {
    const { log, everyMs = EVERY_MS } = this.#parts;
    for (;;) {
      await this.#rest(everyMs);
      if (this.#stopping.signal.aborted) return;
      try {
        await this.sweep();
      } catch (error) {
        log.error({ err: error }, "what is kept no longer could not be removed; trying again");
      }
    }
  }

  async #rest(ms: number): Promise<void> {
    const { signal } = this.#stopping;
    await pause(this.#clock, ms, signal);
  }
}
