import type { Clock } from "../../kit/clock.ts";
import { AppError } from "../../model/errors.ts";
import type { OpenVersion } from "./open-version.ts";

/** So long a stand-in is kept for an app that does not come. */
const KEPT_MS = 30_000;

/** Versions that were started before their apps are served here, so that no call waits when they are. */
export class StandIns {
  readonly #clock: Clock;
  readonly #ready = new Map<string, OpenVersion>();
  readonly #warming = new Map<string, { readonly open: OpenVersion; readonly done: Promise<void> }>();
  readonly #closing = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Has that many replicas of a version ready, and keeps them for a while; throws why they cannot start. */
  async warm(versionId: string, replicas: number, make: () => OpenVersion): Promise<void> {
    if (this.#ready.has(versionId)) return;
    const known = this.#warming.get(versionId);
    if (known) return await known.done;
    const open = make();
    const done = this.#warm(versionId, replicas, open).finally(() => this.#warming.delete(versionId));
    this.#warming.set(versionId, { open, done });
    await done;
  }

  all(): OpenVersion[] {
    return [...this.#ready.values(), ...Array.from(this.#warming.values(), ({ open }) => open)];
  }

  /** The stand-in for that version, which is its taker's from now on. */
  take(versionId: string): OpenVersion | null {
    const open = this.#ready.get(versionId) ?? null;
    this.#ready.delete(versionId);
    return open;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.allSettled(Array.from(this.#warming.values(), ({ done }) => done));
    await Promise.all(Array.from(this.#ready.keys(), (versionId) => this.#drop(versionId)));
  }

  async #warm(versionId: string, replicas: number, open: OpenVersion): Promise<void> {
    const failure = await open.warm(replicas, this.#closing.signal);
    if (failure || this.#closing.signal.aborted) {
      await open.close();
      const message = failure?.message ?? "the service stops";
      throw new AppError("app_not_ready", { message, headers: { "retry-after": "1" } });
    }
    this.#ready.set(versionId, open);
    this.#clock.after(KEPT_MS, () => {
      if (this.#ready.get(versionId) === open) void this.#drop(versionId);
    });
  }

  async #drop(versionId: string): Promise<void> {
    await this.take(versionId)?.close();
  }
}
