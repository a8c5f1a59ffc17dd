import { readFile } from "node:fs/promises";
import type { Clock, Timer } from "../../kit/clock.ts";
import { readStat, threadsOf } from "../proc-stat.ts";
import { below } from "../process-tree.ts";
import type { LimitGroup } from "./limits.ts";

/** While nothing is near its limit, and as soon as something is. */
const CALM_MS = 1_000;
const CLOSE_MS = 100;
/** Of its limit: nothing that uses less can pass it in a calm second unless it takes half of it at once. */
const CLOSE_SHARE = 0.5;
/** To find a thread that lives long enough to be asked. */
const ATTEMPTS = 10;

/**
 * Watches the memory of groups where the kernel does not limit it. It counts what processes share in parts (Pss), as
 * forks of one template share most of theirs; but only once the sum that counts it in full is above the limit, which
 * is much cheaper to know.
 */
export class MemoryWatcher {
  readonly #clock: Clock;
  readonly #groups = new Set<WatchedGroup>();
  #timer: Timer | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  group(maxBytes: number): LimitGroup {
    const group = new WatchedGroup(maxBytes, () => {
      this.#groups.delete(group);
      if (this.#groups.size > 0) return;
      this.#timer?.cancel();
      this.#timer = null;
    });
    this.#groups.add(group);
    this.#timer ??= this.#clock.after(CLOSE_MS, () => void this.#look());
    return group;
  }

  async #look(): Promise<void> {
    let isClose = false;
    const elsewhere = new Set([...this.#groups].flatMap(({ pids }) => [...pids]));
    for (const group of this.#groups) if ((await group.look(elsewhere)) > CLOSE_SHARE) isClose = true;
    if (this.#groups.size > 0)
      this.#timer = this.#clock.after(isClose ? CLOSE_MS : CALM_MS, () => void this.#look());
    else this.#timer = null;
  }
}

class WatchedGroup implements LimitGroup {
  readonly pids = new Set<number>();
  readonly #maxBytes: number;
  readonly #onRemoved: () => void;
  #hasRunOut = false;

  constructor(maxBytes: number, onRemoved: () => void) {
    this.#maxBytes = maxBytes;
    this.#onRemoved = onRemoved;
  }

  async add(pid: number): Promise<void> {
    this.pids.add(pid);
  }

  ranOut(): boolean {
    return this.#hasRunOut;
  }

  remove(): void {
    this.pids.clear();
    this.#onRemoved();
  }

  /** Ends its processes if they use too much. Gives the share of its limit that they use, at most. */
  async look(roots: ReadonlySet<number>): Promise<number> {
    const pids = [...this.pids].flatMap((root) => [root, ...belowOnly(root, roots)]);
    const share = sum(pids.map(residentBytes)) / this.#maxBytes;
    if (share <= 1) return share;
    const living = pids.filter((pid) => residentBytes(pid) > 0);
    const bytes = sum(await Promise.all(living.map(proportionalBytes)));
    // It was removed meanwhile, and the pids may be of others by now.
    if (bytes > this.#maxBytes && this.pids.size > 0) {
      this.#hasRunOut = true;
      for (const pid of pids) end(pid);
    }
    return share;
  }
}

/** The processes below one, without those of groups further down. */
function belowOnly(root: number, roots: ReadonlySet<number>): number[] {
  const all = below(root).living;
  const others = all.filter((pid) => roots.has(pid));
  const excluded = new Set(others.flatMap((other) => [other, ...below(other).living]));
  return all.filter((pid) => !excluded.has(pid));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

/** None for a process that is ending: it may have become another group's by the death of those above it. */
function residentBytes(pid: number): number {
  try {
    const first = readStat(`${pid}`, "/proc");
    if (first.hasExited && first.threads > 1) return bytesOfThreads(pid);
    return first.isEnding ? 0 : first.residentBytes;
  } catch {
    return 0; // It has just ended.
  }
}

/**
 * What a process holds whose first thread has ended, of which the kernel tells nothing then. Too much if its other
 * threads come and go so fast that none can be asked: an app has no other reason for that than to hide.
 */
function bytesOfThreads(pid: number): number {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    for (const thread of threadsOf(pid, "/proc")) {
      try {
        const { hasExited, isEnding, residentBytes: bytes } = readStat(thread, "/proc");
        if (!hasExited) return isEnding ? 0 : bytes;
      } catch {
        // It has just ended, and the others have not.
      }
    }
  }
  return readStat(`${pid}`, "/proc").threads > 1 ? Number.POSITIVE_INFINITY : 0;
}

/** All it has, where the kernel does not tell: an app can hide what it shares, and then nothing is shared. */
async function proportionalBytes(pid: number): Promise<number> {
  try {
    const text = await readFile(`/proc/${pid}/smaps_rollup`, "latin1");
    const [, kilobytes] = /^Pss: +(\d+) kB$/m.exec(text) ?? [];
    return kilobytes === undefined ? residentBytes(pid) : Number(kilobytes) * 1024;
  } catch {
    return residentBytes(pid);
  }
}

/** Not the keeper that the service has started: it tells how what it kept has ended. */
function end(pid: number): void {
  try {
    if (readStat(`${pid}`, "/proc").parent !== process.pid) process.kill(pid, "SIGKILL");
  } catch {
    // It has just ended.
  }
}
