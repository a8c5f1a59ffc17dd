import { statfs } from "./files.ts";
import { type Clock, systemClock, type Timer } from "./clock.ts";

const LOOK_MS = 1_000;
/** The share of the reserve that must be outside the files. */
const OUTSIDE_SHARE = 1 / 4;

export type DiskReserveOptions = {
  /** Unused bytes inside files on the disk, which count as free. */
  readonly insideBytes?: () => Promise<number>;
  /** The setting that the message says to lower. */
  readonly setting: string;
  readonly clock?: Clock;
};

/** Checks every second whether a disk has less free space than the reserve. */
export class DiskReserve {
  readonly #path: string;
  readonly #reserveBytes: number;
  readonly #options: DiskReserveOptions;
  #timer: Timer | null = null;
  #freeBytes = Number.POSITIVE_INFINITY;
  /** All of the disk. */
  #bytes = 0;
  #insideBytes = 0;
  #looking: Promise<void> | null = null;

  constructor(path: string, reserveBytes: number, options: DiskReserveOptions) {
    this.#path = path;
    this.#reserveBytes = reserveBytes;
    this.#options = options;
  }

  /** Checks now, and then every second. */
  async start(): Promise<void> {
    await this.look();
    this.#timer = (this.#options.clock ?? systemClock).every(LOOK_MS, () => void this.look());
  }

  stop(): void {
    this.#timer?.cancel();
  }

  /** As of the latest check; null before the first. */
  get space(): { readonly freeBytes: number; readonly bytes: number } | null {
    return this.#bytes === 0 ? null : { freeBytes: this.#freeBytes, bytes: this.#bytes };
  }

  get isLow(): boolean {
    // Space inside a file does not help if its log cannot grow: part of the reserve must be free on the disk.
    const isTight = this.#freeBytes < this.#reserveBytes * OUTSIDE_SHARE;
    return isTight || this.#freeBytes + this.#insideBytes < this.#reserveBytes;
  }

  /** The disk is full, with any reserve. */
  get isFull(): boolean {
    return this.#freeBytes === 0;
  }

  /** Less than twice the reserve is left: time to remove expendable data. */
  get isNear(): boolean {
    return this.#reserveBytes > 0 && this.#freeBytes + this.#insideBytes < 2 * this.#reserveBytes;
  }

  /** The message for a refused caller; null while there is room. */
  get shortage(): string | null {
    if (!this.isLow) return null;
    const remedy = `make room, or lower ${this.#options.setting}`;
    const allFree = this.#freeBytes + this.#insideBytes;
    const hasInside = allFree >= this.#reserveBytes;
    const free = hasInside ? this.#freeBytes : allFree;
    const kept = hasInside ? this.#reserveBytes * OUTSIDE_SHARE : this.#reserveBytes;
    const inside = hasInside ? ` besides ${megabytes(this.#insideBytes)} inside the database` : "";
    return `The disk has ${megabytes(free)} free, but ${megabytes(kept)} must stay free${inside}: ${remedy}.`;
  }

  /** One check at a time: on a hanging disk, each would block one of the few file threads. */
  async look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = null));
    await this.#looking;
  }

  async #look(): Promise<void> {
    try {
      const { bavail, blocks, bsize } = await statfs(this.#path);
      this.#freeBytes = bavail * bsize;
      this.#bytes = blocks * bsize;
      this.#insideBytes = (await this.#options.insideBytes?.()) ?? 0;
    } catch {
      // The next write reports a disk that fails.
    }
  }
}

function megabytes(bytes: number): string {
  return `${Math.floor(bytes / 1e6)} MB`;
}
