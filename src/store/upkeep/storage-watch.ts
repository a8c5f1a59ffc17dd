import type { Settings } from "../../config/setting-keys.ts";
import { busyShare, CALM_SHARE } from "../../kit/event-loop.ts";
import type { Clock, Timer } from "../../kit/clock.ts";
import { DiskReserve } from "../../kit/disk-reserve.ts";
import type { Lifecycle } from "../../kit/lifecycle.ts";
import type { Log } from "../../kit/log.ts";
import type { DatabaseFile, StorageFault } from "./storage-fault.ts";
import type { Store } from "../store.ts";

/** SQLite reads this much in 0.3 s from the page cache, which a start can wait for. */
export const CHECKED_FIRST_BYTES = 256 * 1024 * 1024;
/** Well below the promised 5 s; each check takes two calls of `stat`. */
const LOOK_MS = 1_000;
const CHECK_TICK_MS = 60_000;
/** A check reads the whole file, so more frequent checks of a large file would be noticeable. */
const CHECK_AGAIN_MS = 24 * 3600 * 1000;

export type StorageWatchParts = {
  readonly file: DatabaseFile | null;
  readonly reserve: DiskReserve;
  readonly clock: Clock;
  readonly log: Log;
  /** The share of the time since its last call in which the service was busy. */
  readonly busyShare: () => number;
};

/**
 * Whether the storage can accept new data: the disk has room, the database is still the file that was opened, and no
 * check has found damage in it. A small file is checked before the first call, a large one a minute later; then once a
 * day, when the service has little to do.
 */
export class StorageWatch {
  readonly #parts: StorageWatchParts;
  readonly #timers: Timer[] = [];
  #checkedAt: number | null = null;
  #told: StorageFault["detail"] | null = null;
  /** Resolves after the check that calls wait for. */
  checked: Promise<void> = Promise.resolve();

  constructor(parts: StorageWatchParts) {
    this.#parts = parts;
  }

  async start(): Promise<void> {
    const { file, reserve, clock } = this.#parts;
    await reserve.start();
    if (!file) return;
    if ((await file.bytes()) <= CHECKED_FIRST_BYTES) this.checked = this.#check(file, false);
    this.#timers.push(
      clock.every(LOOK_MS, () => void this.#look(file)),
      clock.every(CHECK_TICK_MS, () => this.#tick(file)),
    );
  }

  stop(): void {
    this.#parts.reserve.stop();
    for (const timer of this.#timers) timer.cancel();
  }

  /** Why nothing new is accepted, as a message for callers; null if it is accepted. */
  get refusal(): string | null {
    return this.#parts.file?.fault?.message ?? this.shortage;
  }

  get shortage(): string | null {
    return this.#parts.reserve.shortage;
  }

  get space(): DiskReserve["space"] {
    return this.#parts.reserve.space;
  }

  get isLow(): boolean {
    return this.#parts.reserve.isLow;
  }

  get isNear(): boolean {
    return this.#parts.reserve.isNear;
  }

  get isFull(): boolean {
    return this.#parts.reserve.isFull;
  }

  async #look(file: DatabaseFile): Promise<void> {
    await file.look();
    this.#tell(file);
  }

  #tick(file: DatabaseFile): void {
    const { clock, busyShare: share } = this.#parts;
    const isCalm = share() <= CALM_SHARE;
    const isDue = this.#checkedAt === null || clock.monotonic() - this.#checkedAt >= CHECK_AGAIN_MS;
    if (isDue && (isCalm || this.#checkedAt === null)) void this.#check(file, true);
  }

  async #check(file: DatabaseFile, inSteps: boolean): Promise<void> {
    const { clock, log } = this.#parts;
    this.#checkedAt = clock.monotonic();
    try {
      await file.check(inSteps);
    } catch (error) {
      log.warn({ err: error }, "could not check the database for damage; the next check is in a day");
    }
    this.#tell(file);
  }

  #tell({ fault }: DatabaseFile): void {
    const detail = fault?.detail ?? null;
    if (detail === this.#told) return;
    this.#told = detail;
    if (detail === null) this.#parts.log.info("the database is in its place again, and takes new work");
    else this.#parts.log.error({ detail }, "the database cannot be trusted; nothing new is accepted");
  }
}

/** Watches the database's file and the room on its disk; with Postgres, neither is on this machine. */
export async function watchStorage(
  { dataDir, diskReserveBytes }: Settings,
  store: Store,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  life: Lifecycle,
): Promise<StorageWatch> {
  const isHere = store.kind === "sqlite";
  const reserve = new DiskReserve(dataDir, isHere ? diskReserveBytes : 0, {
    // With Postgres this would always be 0.
    ...(isHere && { insideBytes: () => store.space.freeBytes() }),
    setting: "MILLRACE_DISK_RESERVE",
    clock,
  });
  const watch = await life.start(
    "storage watch",
    () => new StorageWatch({ file: store.file(), reserve, clock, log, busyShare: busyShare() }),
    (started) => started.stop(),
  );
  await watch.start();
  return watch;
}
