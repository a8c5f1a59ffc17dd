import { constants } from "node:fs";
import { systemClock } from "./clock.ts";
import type { Clock } from "./clock.ts";
import { access } from "./files.ts";
import { within } from "./within.ts";

/** A disk that takes longer says nothing: what was known counts. */
const LOOK_MS = 1_000;
const MISSING: ReadonlySet<unknown> = new Set(["ENOENT", "ENOTDIR", "EACCES"]);

/** Tells whether a program is still where it was. */
export class Presence {
  readonly path: string;
  readonly #clock: Pick<Clock, "after">;
  #isMissing = false;
  #looking: Promise<void> | null = null;

  constructor(path: string, clock: Pick<Clock, "after"> = systemClock) {
    this.path = path;
    this.#clock = clock;
  }

  /** Looks, once at a time: on a disk that hangs each look would hold one of the process's few file threads. */
  async isMissing(): Promise<boolean> {
    this.#looking ??= this.#look().finally(() => (this.#looking = null));
    await within(LOOK_MS, this.#looking, this.#clock);
    return this.#isMissing;
  }

  async #look(): Promise<void> {
    try {
      await access(this.path, constants.X_OK);
      this.#isMissing = false;
    } catch (error) {
      this.#isMissing = MISSING.has((error as NodeJS.ErrnoException).code);
    }
  }
}
