import type { Clock } from "../../kit/clock.ts";
import { AppError } from "../../model/errors.ts";
import type { OpenVersion } from "./open-version.ts";

/** So long a stand-in is kept for an app that does not come. */
const KEPT_MS = 30_000;

/** Versions that were started before their apps are served here, so that no call waits when they are. */
export class StandIns {
  readonly #clock: Clock;
  readonly #ready = new Map<string, OpenVersion>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Starts that many replicas, and keeps them for a while; throws why they cannot start. */
  async warm(open: OpenVersion, replicas: number): Promise<void> {
    const failure = await open.warm(replicas, new AbortController().signal);
    if (failure || this.#ready.has(open.version.id)) await end(open);
    if (failure)
      throw new AppError("app_not_ready", { message: failure.message, headers: { "retry-after": "1" } });
    if (this.#ready.has(open.version.id)) return;
    this.#ready.set(open.version.id, open);
    this.#clock.after(KEPT_MS, () => void this.#drop(open));
  }

  /** The stand-in for that version, which is its taker's from now on. */
  take(versionId: string): OpenVersion | null {
    const open = this.#ready.get(versionId) ?? null;
    this.#ready.delete(versionId);
    return open;
  }

  async close(): Promise<void> {
    await Promise.all(Array.from(this.#ready.values(), (open) => this.#drop(open)));
  }

  async #drop(open: OpenVersion): Promise<void> {
    if (this.#ready.get(open.version.id) !== open) return;
    this.#ready.delete(open.version.id);
    await end(open);
  }
}

async function end(open: OpenVersion): Promise<void> {
  await open.pool.close({ kind: "refused", code: "draining" });
}
