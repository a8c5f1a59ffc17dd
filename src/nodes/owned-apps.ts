import { backoffMs } from "../kit/retry.ts";
import type { Clock } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { forEachConcurrently } from "../kit/concurrency.ts";
import { AppError } from "../model/errors.ts";
import type { GpuWish } from "../model/gpu.ts";
import type { AppHolder, OwnedApp } from "../store/nodes/app-owners.ts";

/** What serves the owned apps. */
export type AppHost = {
  /** Starts to serve the app; false if it has no version. Rejects if its version cannot be loaded. */
  open(appNumber: number): Promise<boolean>;
  /** Stops serving it; calls in progress end first. */
  letGo(appNumber: number): Promise<void>;
  /** Whether a deploy is changing it; such an app is not moved. */
  isChanging(appNumber: number): boolean;
  readyCount(appNumber: number): number;
  /** The GPUs that each of its replicas asks for; null for none, and for an app that is not served here. */
  gpuWish(appNumber: number): GpuWish | null;
  /** This node has taken apps, and must end what their former owner left unfinished. */
  onTaken(): void;
};

type OwnedAppsParts = { readonly clock: Clock; readonly log: Log; readonly nodeId: string };

/** Why an owned app is not served, and when it is retried. */
type Unserved = { readonly error: unknown; readonly failures: number; readonly nextAt: number };

const NO_FENCE = -1;
const OPENED_AT_A_TIME = 16;
/** Between two attempts to load an app; doubles each time. */
const RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 60_000;

/** The apps of this node with their fences. Each is served, unless it cannot be loaded. */
export class OwnedApps {
  readonly #parts: OwnedAppsParts;
  readonly fences = new Map<number, number>();
  readonly #unserved = new Map<number, Unserved>();
  #host: AppHost | null = null;

  constructor(parts: OwnedAppsParts) {
    this.#parts = parts;
  }

  serveBy(host: AppHost): void {
    this.#host = host;
  }

  get isServing(): boolean {
    return this.#host !== null;
  }

  holderOf(appNumber: number): AppHolder {
    return { owner: this.#parts.nodeId, fence: this.fences.get(appNumber) ?? NO_FENCE };
  }

  list(): OwnedApp[] {
    return Array.from(this.fences, ([appNumber, fence]) => ({ appNumber, fence }));
  }

  isFree(appNumber: number): boolean {
    return this.#host !== null && !this.#host.isChanging(appNumber);
  }

  readyCount(appNumber: number): number {
    return this.#host?.readyCount(appNumber) ?? 0;
  }

  gpuWish(appNumber: number): GpuWish | null {
    return this.#host?.gpuWish(appNumber) ?? null;
  }

  /** Adds apps and serves them. */
  async serve(apps: readonly OwnedApp[]): Promise<void> {
    const come = apps.filter(({ appNumber, fence }) => fence > (this.fences.get(appNumber) ?? NO_FENCE));
    for (const { appNumber, fence } of come) this.fences.set(appNumber, fence);
    const host = this.#host;
    if (!host) return;
    if (come.length > 0) host.onTaken();
    await forEachConcurrently(apps, OPENED_AT_A_TIME, async ({ appNumber }) => {
      // Apps that failed to load are retried on a timer; retries by callers would lengthen the backoff.
      if (!this.#unserved.has(appNumber)) await this.#open(appNumber, host);
    });
  }

  /** Removes the app; its calls in progress end. */
  async loosen(appNumber: number): Promise<void> {
    this.#unserved.delete(appNumber);
    if (this.fences.delete(appNumber)) await this.#host?.letGo(appNumber);
  }

  /** Apps that could not be loaded and are due for a retry. */
  due(): number[] {
    const now = this.#parts.clock.monotonic();
    return [...this.#unserved].filter(([, { nextAt }]) => nextAt <= now).map(([appNumber]) => appNumber);
  }

  /** Makes all of them due, because something has changed. */
  wake(): void {
    const nextAt = this.#parts.clock.monotonic();
    for (const [appNumber, { error }] of this.#unserved)
      this.#unserved.set(appNumber, { error, failures: 1, nextAt });
  }

  /** Retries one; returns the number of failures, 0 if it is served. */
  async retry(appNumber: number): Promise<number> {
    if (this.#host) await this.#open(appNumber, this.#host);
    return this.#unserved.get(appNumber)?.failures ?? 0;
  }

  whyUnserved(appNumber: number): AppError | null {
    const error = this.#unserved.get(appNumber)?.error;
    return error instanceof AppError ? error : null;
  }

  async #open(appNumber: number, host: AppHost): Promise<void> {
    // It may have been handed over meanwhile.
    if (this.fences.has(appNumber)) {
      try {
        await host.open(appNumber);
        this.#unserved.delete(appNumber);
      } catch (error) {
        if (this.fences.has(appNumber)) this.#note(appNumber, error);
      }
    }
    if (!this.fences.has(appNumber)) await host.letGo(appNumber);
  }

  #note(appNumber: number, error: unknown): void {
    const { clock, log } = this.#parts;
    const failures = (this.#unserved.get(appNumber)?.failures ?? 0) + 1;
    const waitMs = backoffMs(failures, RETRY_MS, LONGEST_RETRY_MS);
    this.#unserved.set(appNumber, { error, failures, nextAt: clock.monotonic() + waitMs });
    log.error({ err: error, appNumber }, "could not load an app; retrying, here and on other nodes");
  }
}
