import { backoffMs } from "../kit/retry.ts";
import type { Clock } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { forEachConcurrently } from "../kit/concurrency.ts";
import { AppError } from "../model/errors.ts";
import type { AppHolder, OwnedApp } from "../store/nodes/app-owners.ts";

/** What serves the apps that this node has. */
export type AppHost = {
  /** Serves the app from now on; false when it has no version. Rejects where its version cannot be loaded. */
  open(appNumber: number): Promise<boolean>;
  /** Serves it no more: calls under way end, then nothing of it is left here. */
  letGo(appNumber: number): Promise<void>;
  /** Whether it is being changed just now: such an app is not moved. */
  isChanging(appNumber: number): boolean;
  /** How many of its replicas take calls. */
  readyCount(appNumber: number): number;
  /** Apps have come to this node: what another has left unfinished of them is its own to end. */
  onTaken(): void;
};

type OwnedAppsParts = { readonly clock: Clock; readonly log: Log; readonly nodeId: string };

/** Why an app is not served that is ours, and when that is tried again. */
type Unserved = { readonly error: unknown; readonly failures: number; readonly nextAt: number };

const NO_FENCE = -1;
const OPENED_AT_A_TIME = 16;
/** Between two tries to load an app, doubling from the one to the other. */
const RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 60_000;

/** The apps of this node, by their fences. Each is served, unless it cannot be loaded here. */
export class OwnedApps {
  readonly #parts: OwnedAppsParts;
  readonly #fences = new Map<number, number>();
  readonly #unserved = new Map<number, Unserved>();
  #host: AppHost | null = null;

  constructor(parts: OwnedAppsParts) {
    this.#parts = parts;
  }

  /** What is ours is served by that, from now on; before, nothing is. */
  serveBy(host: AppHost): void {
    this.#host = host;
  }

  get isServing(): boolean {
    return this.#host !== null;
  }

  has(appNumber: number): boolean {
    return this.#fences.has(appNumber);
  }

  /** Undefined for an app that is not ours. */
  fenceOf(appNumber: number): number | undefined {
    return this.#fences.get(appNumber);
  }

  /** By which this node may write about the app: about one that is not ours, by a fence that no app has. */
  holderOf(appNumber: number): AppHolder {
    return { owner: this.#parts.nodeId, fence: this.#fences.get(appNumber) ?? NO_FENCE };
  }

  /** All of them as they are now. */
  list(): OwnedApp[] {
    return Array.from(this.#fences, ([appNumber, fence]) => ({ appNumber, fence }));
  }

  /** Whether it could go to another node now. */
  isFree(appNumber: number): boolean {
    return this.#host !== null && !this.#host.isChanging(appNumber);
  }

  readyCount(appNumber: number): number {
    return this.#host?.readyCount(appNumber) ?? 0;
  }

  /** Has these from now on, and serves them. */
  async serve(apps: readonly OwnedApp[]): Promise<void> {
    const come = apps.filter(({ appNumber, fence }) => fence > (this.#fences.get(appNumber) ?? NO_FENCE));
    for (const { appNumber, fence } of come) this.#fences.set(appNumber, fence);
    const host = this.#host;
    if (!host) return;
    if (come.length > 0) host.onTaken();
    await forEachConcurrently(apps, OPENED_AT_A_TIME, async ({ appNumber }) => {
      // One that could not be loaded is tried again in its own time: callers would put that off, each by one more failure.
      if (!this.#unserved.has(appNumber)) await this.#open(appNumber, host);
    });
  }

  /** Has the app no more: what of it is under way ends. */
  async loosen(appNumber: number): Promise<void> {
    this.#unserved.delete(appNumber);
    if (this.#fences.delete(appNumber)) await this.#host?.letGo(appNumber);
  }

  /** Those that could not be loaded, and should be tried again by now. */
  due(): number[] {
    const now = this.#parts.clock.monotonic();
    return [...this.#unserved].filter(([, { nextAt }]) => nextAt <= now).map(([appNumber]) => appNumber);
  }

  /** Those that could not be loaded are due now: something has changed. */
  wake(): void {
    const nextAt = this.#parts.clock.monotonic();
    for (const [appNumber, { error }] of this.#unserved)
      this.#unserved.set(appNumber, { error, failures: 1, nextAt });
  }

  /** Tries again to load one; gives how often that has failed now, 0 if it is served. */
  async retry(appNumber: number): Promise<number> {
    if (this.#host) await this.#open(appNumber, this.#host);
    return this.#unserved.get(appNumber)?.failures ?? 0;
  }

  /** Why an app that is ours cannot be loaded; null if nothing is known against it. */
  whyUnserved(appNumber: number): AppError | null {
    const error = this.#unserved.get(appNumber)?.error;
    return error instanceof AppError ? error : null;
  }

  async #open(appNumber: number, host: AppHost): Promise<void> {
    // It may have gone to another node while others were opened.
    if (this.#fences.has(appNumber)) {
      try {
        await host.open(appNumber);
        this.#unserved.delete(appNumber);
      } catch (error) {
        this.#note(appNumber, error);
      }
    }
    if (!this.#fences.has(appNumber)) await host.letGo(appNumber);
  }

  #note(appNumber: number, error: unknown): void {
    if (!this.#fences.has(appNumber)) return;
    const { clock, log } = this.#parts;
    const failures = (this.#unserved.get(appNumber)?.failures ?? 0) + 1;
    const waitMs = backoffMs(failures, RETRY_MS, LONGEST_RETRY_MS);
    this.#unserved.set(appNumber, { error, failures, nextAt: clock.monotonic() + waitMs });
    log.error({ err: error, appNumber }, "could not load an app; it is tried again, here and elsewhere");
  }
}
