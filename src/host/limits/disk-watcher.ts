import { statfs } from "node:fs/promises";
import type { Clock } from "../../kit/clock.ts";
import { folderBytes } from "./folder-size.ts";

const LOOK_MS = 1_000;
/** What others remove from the same disk hides what is written to a folder: it is measured that often anyway. */
const MEASURE_MS = 5_000;
/** Of a folder with so many files that measuring takes long, a twentieth of the time is spent on it. */
const REST = 20;

const NEVER = Number.NEGATIVE_INFINITY;

/** A folder, and the most that it may hold. */
export type Bound = { readonly folder: string; readonly maxBytes: number };

type Watched = Bound & {
  readonly listeners: Set<() => void>;
  bytes: number;
  /** What was taken of the disk when the folder was measured, and when that was. */
  takenBytes: number;
  measuredAt: number;
  /** How long it took. */
  tookMs: number;
  /** It is being measured now. */
  isMeasuring: boolean;
  isOver: boolean;
};

/**
 * Watches how much folders hold. A folder is measured only if its disk has got so much fuller that it may hold more
 * than it should.
 */
export class DiskWatcher {
  readonly #clock: Clock;
  readonly #watched = new Map<string, Watched>();
  /** A look is on its way, or under way. */
  #isLooking = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `onOver` once, when a folder holds too much. Gives a function that ends this. */
  watch({ folder, maxBytes }: Bound, onOver: () => void): () => void {
    const watched = this.#watched.get(folder) ?? unmeasured(folder, maxBytes);
    this.#watched.set(folder, watched);
    watched.listeners.add(onOver);
    this.#lookLater();
    return () => {
      watched.listeners.delete(onOver);
      // Whoever has ended before the first look may have written as much as anybody.
      if (watched.measuredAt === NEVER) void this.#measure(watched);
      else this.#forgetIfIdle(watched);
    };
  }

  /** Whether a folder was found to hold too much; it is measured again now, and that shows the next time. */
  isOver(folder: string): boolean {
    const watched = this.#watched.get(folder);
    if (!watched?.isOver) return false;
    void this.#measure(watched);
    return true;
  }

  async #look(): Promise<void> {
    for (const watched of this.#watched.values())
      // Not waited for: an app with millions of files keeps nobody else's from being measured.
      if (watched.listeners.size > 0 && (await this.#mayBeOver(watched))) void this.#measure(watched);
    const isIdle = [...this.#watched.values()].every(({ listeners }) => listeners.size === 0);
    this.#isLooking = false;
    if (!isIdle) this.#lookLater();
  }

  #lookLater(): void {
    if (this.#isLooking) return;
    this.#isLooking = true;
    this.#clock.after(LOOK_MS, () => void this.#look());
  }

  async #mayBeOver({ folder, maxBytes, bytes, takenBytes, measuredAt, tookMs }: Watched): Promise<boolean> {
    if (this.#clock.monotonic() - measuredAt >= Math.max(MEASURE_MS, REST * tookMs)) return true;
    return bytes + (await takenOf(folder)) - takenBytes > maxBytes;
  }

  /** Unless that is under way: each start of an app that is over its bound asks for it. */
  async #measure(watched: Watched): Promise<void> {
    if (watched.isMeasuring) return;
    watched.isMeasuring = true;
    const startedAt = this.#clock.monotonic();
    watched.takenBytes = await takenOf(watched.folder);
    watched.bytes = await folderBytes(watched.folder, watched.maxBytes);
    watched.measuredAt = this.#clock.monotonic();
    watched.tookMs = watched.measuredAt - startedAt;
    watched.isMeasuring = false;
    watched.isOver = watched.bytes > watched.maxBytes;
    this.#forgetIfIdle(watched);
    if (!watched.isOver) return;
    const { listeners } = watched;
    for (const listener of listeners) listener();
    listeners.clear();
  }

  /** The folder may be watched anew by now, and that goes on. */
  #forgetIfIdle(watched: Watched): void {
    const isIdle = watched.listeners.size === 0 && !watched.isOver;
    if (isIdle && this.#watched.get(watched.folder) === watched) this.#watched.delete(watched.folder);
  }
}

function unmeasured(folder: string, maxBytes: number): Watched {
  return {
    folder,
    maxBytes,
    listeners: new Set(),
    bytes: 0,
    takenBytes: 0,
    measuredAt: NEVER,
    tookMs: 0,
    isMeasuring: false,
    isOver: false,
  };
}

/** What is taken of the disk that holds a folder; 0 if the folder is not there. */
async function takenOf(folder: string): Promise<number> {
  try {
    const { blocks, bfree, bsize } = await statfs(folder);
    return (blocks - bfree) * bsize;
  } catch {
    return 0;
  }
}
