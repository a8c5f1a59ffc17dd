import type { Clock, Timer } from "../kit/clock.ts";
import { Condition } from "../kit/concurrency.ts";
import type { Progress } from "../model/run.ts";
import type { ReportedProgress } from "../replicas/call.ts";

/** Between two writes of a run's progress: it may report ten times a second for hours. */
const SAVE_MS = 2_000;

/** Stores it; resolves when that is done, or will not be. */
type SaveProgress = (progress: Progress) => Promise<unknown>;

/** How far a run says that it is: the newest report, which is stored now and then. */
export class ProgressKeeper {
  readonly #clock: Clock;
  readonly #save: () => SaveProgress | null;
  readonly #changed = new Condition();
  #latest: Progress | null = null;
  #saved: Progress | null = null;
  /** Null while nothing is being stored. */
  #saving: Promise<void> | null = null;
  #timer: Timer | null = null;
  /** Monotonic. */
  #mayRestAt = 0;
  #isOver = false;

  /** `save` gives null for a run whose progress is not stored. */
  constructor(clock: Clock, save: () => SaveProgress | null) {
    this.#clock = clock;
    this.#save = save;
  }

  get latest(): Progress | null {
    return this.#latest;
  }

  report(progress: ReportedProgress): void {
    this.#latest = { ...progress, at: this.#clock.now() };
    this.#changed.notify();
    this.#storeLater();
  }

  /** Resolves at the next report, or when the signal aborts. */
  async next(signal: AbortSignal): Promise<void> {
    await this.#changed.wait(signal);
  }

  /** Stores the newest report, before the run's end is; none is stored after that. */
  async flush(): Promise<void> {
    this.#isOver = true;
    this.#timer?.cancel();
    this.#timer = null;
    await this.#saving;
    this.#store();
    await this.#saving;
  }

  /** Unless one is being stored: it may take long, and what comes meanwhile must not gather. */
  #storeLater(): void {
    if (this.#timer || this.#saving || this.#isOver || !this.#save()) return;
    const waitMs = Math.max(0, this.#mayRestAt - this.#clock.monotonic());
    this.#timer = this.#clock.after(waitMs, () => this.#store());
  }

  #store(): void {
    this.#timer = null;
    const save = this.#save();
    const latest = this.#latest;
    if (!save || latest === null || latest === this.#saved) return;
    this.#mayRestAt = this.#clock.monotonic() + SAVE_MS;
    this.#saved = latest;
    this.#saving = this.#finish(save(latest), latest);
  }

  async #finish(saving: Promise<unknown>, latest: Progress): Promise<void> {
    await saving;
    this.#saving = null;
    if (this.#latest !== latest) this.#storeLater();
  }
}
