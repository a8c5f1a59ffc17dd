import type { DiskReserve } from "../../kit/disk-reserve.ts";
import type { LogUse } from "../../store/apps/logs.ts";
import type { Store } from "../../store/store.ts";

export type LogShareParts = {
  readonly store: Pick<Store, "logs">;
  /** Of all apps together. */
  readonly maxBytes: number;
  readonly reserve: Pick<DiskReserve, "isNear" | "shortage">;
};

/** What a write added of an app's lines. */
export type Added = LogUse;

/** Lines removed after one write: more than it brought, few enough that nobody waits for them. */
const TRIM_LINES = 1_000;

/**
 * Keeps apps' lines within their share as they come: past it the oldest go, an app's own for what is too much of
 * its own, and those of the app that has most for what is too much of all. Near the disk's reserve an app pays for each line with older ones of its own, so that logs are never
 * what the reserve is needed for; within it none are stored.
 */
export class LogShare {
  readonly #parts: LogShareParts;
  #appMaxBytes: (appNumber: number) => number = () => Number.POSITIVE_INFINITY;

  constructor(parts: LogShareParts) {
    this.#parts = parts;
  }

  /** What each app may have, from now on. */
  limitApps(maxBytes: (appNumber: number) => number): void {
    this.#appMaxBytes = maxBytes;
  }

  /** Why no line is stored now; null while lines are. */
  get shortage(): string | null {
    return this.#parts.reserve.shortage;
  }

  /** Makes room for what was just written; `used` is what its apps have now. */
  async keep(added: readonly Added[], used: readonly LogUse[]): Promise<void> {
    const { store, maxBytes, reserve } = this.#parts;
    for (const { appNumber, bytes } of used) {
      const own = added.find((each) => each.appNumber === appNumber)?.bytes ?? 0;
      // Twice: what was freed comes back only page by page.
      const owed = reserve.isNear ? 2 * own : 0;
      const tooMuch = Math.max(owed, bytes - Math.min(maxBytes, this.#appMaxBytes(appNumber)));
      if (tooMuch > 0) await store.logs.trim({ appNumber, bytes: tooMuch, limit: TRIM_LINES });
    }
    const tooMuch = (await store.logs.usedBytes()) - maxBytes;
    if (tooMuch > 0) await store.logs.trim({ appNumber: null, bytes: tooMuch, limit: TRIM_LINES });
  }
}
