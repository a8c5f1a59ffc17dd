import { statfs } from "./files.ts";
import { systemClock } from "./clock.ts";
import type { Clock, Timer } from "./clock.ts";

const LOOK_MS = 1_000;
/** Of the reserve, outside the files that hold room themselves. */
const OUTSIDE_SHARE = 1 / 4;

export type DiskReserveOptions = {
  /** Bytes that files on the disk hold without need and will fill first; they count as room. */
  readonly insideBytes?: () => Promise<number>;
  /** How whoever is refused can change the reserve. */
  readonly setting: string;
  readonly clock?: Clock;
};

/** Looks now and then whether a disk has less room left than is to be kept free. */
export class DiskReserve {
  readonly #path: string;
  readonly #reserveBytes: number;
  readonly #options: DiskReserveOptions;
  #timer: Timer | null = null;
  #freeBytes = Number.POSITIVE_INFINITY;
  #insideBytes = 0;
  #looking: Promise<void> | null = null;

  constructor(path: string, reserveBytes: number, options: DiskReserveOptions) {
    this.#path = path;
    this.#reserveBytes = reserveBytes;
    this.#options = options;
  }

  /** Looks once, and from then on every second. */
  async start(): Promise<void> {
    await this.look();
    this.#timer = (this.#options.clock ?? systemClock).every(LOOK_MS, () => void this.look());
  }

  stop(): void {
    this.#timer?.cancel();
  }

  get isLow(): boolean {
    return this.#isTight || this.#freeBytes + this.#insideBytes < this.#reserveBytes;
  }

  /** Room inside a file does not help where its log cannot grow: some of the reserve has to be free itself. */
  get #isTight(): boolean {
    return this.#freeBytes < this.#reserveBytes * OUTSIDE_SHARE;
  }

  /** The disk is full, whatever the reserve is. */
  get isFull(): boolean {
    return this.#freeBytes === 0;
  }

  /** Less than twice the reserve is left: remove what can be spared before the reserve is needed. */
  get isNear(): boolean {
    return this.#reserveBytes > 0 && this.#freeBytes + this.#insideBytes < 2 * this.#reserveBytes;
  }

  /** The message for a refused caller; null while there is room. */
  get shortage(): string | null {
    if (!this.isLow) return null;
    const remedy = `make room, or lower ${this.#options.setting}`;
    const hasInside = this.#freeBytes + this.#insideBytes >= this.#reserveBytes;
    const [free, kept] = hasInside
      ? [this.#freeBytes, this.#reserveBytes * OUTSIDE_SHARE]
      : [this.#freeBytes + this.#insideBytes, this.#reserveBytes];
    const inside = hasInside ? ` besides ${megabytes(this.#insideBytes)} inside the database` : "";
    return `The disk has ${megabytes(free)} free, but ${megabytes(kept)} must stay free${inside}: ${remedy}.`;
  }

  /** Looks now, one look at a time: on a hanging disk each look would hold one of the process's few file threads. */
  async look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = null));
    await this.#looking;
  }

  async #look(): Promise<void> {
    try {
      const { bavail, bsize } = await statfs(this.#path);
      this.#freeBytes = bavail * bsize;
      this.#insideBytes = (await this.#options.insideBytes?.()) ?? 0;
    } catch {
      // A disk that does not answer says so itself, at the next write.
    }
  }
}

function megabytes(bytes: number): string {
  return `${Math.floor(bytes / 1e6)} MB`;
}
