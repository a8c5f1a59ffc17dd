import { statfs } from "node:fs/promises";

const LOOK_MS = 1_000;

/** Looks now and then whether a disk has less room left than is to be kept free. */
export class DiskReserve {
  readonly #path: string;
  readonly #reserveBytes: number;
  #timer: NodeJS.Timeout | null = null;
  isLow = false;

  constructor(path: string, reserveBytes: number) {
    this.#path = path;
    this.#reserveBytes = reserveBytes;
  }

  /** Looks once, and from then on every second. */
  async start(): Promise<void> {
    await this.#look();
    this.#timer = setInterval(() => void this.#look(), LOOK_MS);
    this.#timer.unref();
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    try {
      const { bavail, bsize } = await statfs(this.#path);
      this.isLow = bavail * bsize < this.#reserveBytes;
    } catch {
      // A disk that does not answer says so itself, at the next write.
    }
  }
}
