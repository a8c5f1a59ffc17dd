import type { Clock } from "../kit/clock.ts";
import { AppError } from "../model/errors.ts";
import type { Store } from "../store/store.ts";

/** How long a count is used, and how many times as long as counting took. */
const COUNT_MS = 1_000;
const COUNT_FACTOR = 20;
/** By then, the next count is there. */
const RETRY_AFTER_SECONDS = 2;

type Gauge = { count: number; until: number; counting: Promise<void> | null };

/**
 * Refuses async runs of apps that have as many waiting as they allow. Runs are counted once a second; in between, those that
 * come and begin here are added and taken off. So an app has at most as many more as other services accept in a second.
 */
export class BacklogLimit {
  readonly #store: Pick<Store, "keyLines">;
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #gauges = new Map<number, Gauge>();

  constructor(store: Pick<Store, "keyLines">, clock: Pick<Clock, "monotonic">) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Throws `backlog_full`; otherwise one more run is counted. */
  async check(appNumber: number, most: number): Promise<void> {
    const now = this.#clock.monotonic();
    const gauge = this.#gauges.get(appNumber) ?? { count: Number.NaN, until: now, counting: null };
    this.#gauges.set(appNumber, gauge);
    if (gauge.until <= now)
      gauge.counting ??= this.#count(appNumber, gauge, most).finally(() => (gauge.counting = null));
    // The first count is waited for; while a later one is taken, or fails, the last one is used.
    if (Number.isNaN(gauge.count)) await gauge.counting;
    if (gauge.count >= most) {
      const message = `${most} async runs of this app are waiting, as many as its max_backlog allows; try again later.`;
      throw new AppError("backlog_full", {
        message,
        headers: { "retry-after": String(RETRY_AFTER_SECONDS) },
      });
    }
    gauge.count += 1;
  }

  /** Runs of that app do not wait any more. */
  left(appNumber: number, runs: number): void {
    const gauge = this.#gauges.get(appNumber);
    if (gauge) gauge.count = Math.max(0, gauge.count - runs);
  }

  async #count(appNumber: number, gauge: Gauge, most: number): Promise<void> {
    const startedAt = this.#clock.monotonic();
    gauge.until = Number.POSITIVE_INFINITY;
    try {
      gauge.count = await this.#store.keyLines.waiting({ appNumber, most });
    } catch (error) {
      if (Number.isNaN(gauge.count)) throw error;
    } finally {
      const now = this.#clock.monotonic();
      gauge.until = now + Math.max(COUNT_MS, COUNT_FACTOR * (now - startedAt));
    }
  }
}
