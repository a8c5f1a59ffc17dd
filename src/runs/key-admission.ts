import type { Log } from "../kit/log.ts";
import type { Clock } from "../kit/clock.ts";
import type { QueueConfig } from "../model/app-config.ts";
import type { AppKey } from "../store/runs/key-limits.ts";
import type { Store } from "../store/store.ts";

type AdmissionParts = {
  readonly store: Pick<Store, "keyLines">;
  readonly clock: Clock;
  readonly log: Log;
  /** What an app that is served here allows its runs; null for another app. */
  readonly queueOf: (appNumber: number) => { readonly queue?: QueueConfig } | null;
  /** Runs of that app may begin, at once or then. */
  readonly onAdmitted: (appNumber: number, dueAt: number | null) => void;
};

type Waiting = AppKey & { readonly queue: QueueConfig | undefined };

/** Keys in one write. */
const PAGE = 100;
/** Keys that are looked at together. */
const LOOK_PAGE = 1_000;

/**
 * Lets parked runs begin when others of their concurrency key have made room: after one has come, begun or ended. Runs of
 * keys that a crash has left without an admission are found by `look`.
 */
export class KeyAdmission {
  readonly #parts: AdmissionParts;
  /** Each once, however many of its runs have ended. */
  readonly #waiting = new Map<string, Waiting>();
  #working: Promise<void> | null = null;
  #isStopping = false;

  constructor(parts: AdmissionParts) {
    this.#parts = parts;
  }

  /** `queue`: what the app allows, should it not be served here. */
  admit(appNumber: number, keys: readonly string[], queue: QueueConfig | undefined): void {
    for (const key of keys) this.#waiting.set(`${appNumber} ${key}`, { appNumber, key, queue });
    this.retry();
  }

  /** Admits keys that are waiting since the storage failed. */
  retry(): void {
    if (this.#working || this.#waiting.size === 0 || this.#isStopping) return;
    this.#working = this.#work()
      .catch((error: unknown) =>
        this.#parts.log.error({ err: error }, "could not admit parked runs; retrying"),
      )
      .finally(() => (this.#working = null));
  }

  /** Admits keys whose parked runs nothing else admits. */
  async look(): Promise<void> {
    const { store, clock, queueOf } = this.#parts;
    for (const appNumber of await store.keyLines.apps()) {
      const served = queueOf(appNumber);
      if (!served) continue;
      for (let after: string | null = ""; after !== null && !this.#isStopping;) {
        const { queue } = served;
        const seen = await store.keyLines.stuck({
          appNumber,
          queue,
          now: clock.now(),
          after,
          limit: LOOK_PAGE,
        });
        this.admit(appNumber, seen.keys, queue);
        after = seen.next;
      }
    }
  }

  stop(): void {
    this.#isStopping = true;
  }

  async #work(): Promise<void> {
    const { store, clock, queueOf, onAdmitted } = this.#parts;
    while (this.#waiting.size > 0 && !this.#isStopping) {
      const page = [...this.#waiting].slice(0, PAGE);
      // What comes meanwhile counts once more.
      for (const [name] of page) this.#waiting.delete(name);
      const now = clock.now();
      const admissions = page.map(([, { queue, ...key }]) => {
        const served = queueOf(key.appNumber);
        // An app without limits has none, whatever it had when the run came.
        return { ...key, queue: served ? served.queue : queue, now };
      });
      try {
        const admitted = await store.keyLines.admit(admissions);
        admitted.forEach(({ appNumber, key, count, hasMore, nextAt }, i) => {
          if (count > 0) onAdmitted(appNumber, null);
          if (nextAt !== null) onAdmitted(appNumber, nextAt);
          if (hasMore)
            this.#waiting.set(`${appNumber} ${key}`, { appNumber, key, queue: admissions[i]?.queue });
        });
      } catch (error) {
        for (const [name, waiting] of page) this.#waiting.set(name, waiting);
        throw error;
      }
    }
  }
}
