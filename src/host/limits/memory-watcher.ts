import { readFile } from "node:fs/promises";
import type { Clock, Timer } from "../../kit/clock.ts";
import { readStat, threadsOf } from "../proc-stat.ts";
import { below } from "../process-tree.ts";
import { bytesOf, charge, heldBy, segments, statusOf, sum, unmappedOnHost } from "./held-memory.ts";
import type { LimitGroup } from "./limits.ts";

/** While nothing is near its limit, and as soon as something is. */
const CALM_MS = 1_000;
const CLOSE_MS = 100;
/** Of its limit: nothing that uses less can pass it in a calm second unless it takes half of it at once. */
const CLOSE_SHARE = 0.5;
/** To find a thread that lives long enough to be asked. */
const ATTEMPTS = 10;
/** So long a count of what is held unmapped is good for, unless the host's grows: others may have freed as much. */
const COUNT_MS = 10_000;
/** A look at very many processes takes long: a tenth of the time is spent on it at most. */
const REST_FACTOR = 10;

/** What groups hold in memory without having it mapped, and how much there was on the whole host then. */
type Count = {
  readonly at: number;
  readonly onHost: number;
  readonly charges: ReadonlyMap<WatchedGroup, Charge>;
};
type Charge = ReturnType<typeof charge>[number];

/**
 * Watches the memory of groups where the kernel does not limit it. It counts what processes share in parts (Pss), as
 * forks of one template share most of theirs; but only once the sum that counts it in full is above the limit, which
 * is much cheaper to know. Memory that can be held without being mapped, such as files in `/dev/shm`, is counted only
 * if there is so much of it on the whole host that it could matter.
 */
export class MemoryWatcher {
  readonly #clock: Clock;
  readonly #groups = new Set<WatchedGroup>();
  /** The processes that groups begin with. */
  readonly #roots = new Set<number>();
  /** Null while it looks, too. */
  #timer: Timer | null = null;
  #isLooking = false;
  #count: Count | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  group(maxBytes: number): LimitGroup {
    const group = new WatchedGroup(maxBytes, this.#roots, () => {
      this.#groups.delete(group);
      if (this.#groups.size > 0) return;
      this.#timer?.cancel();
      this.#timer = null;
    });
    this.#groups.add(group);
    if (!this.#isLooking) this.#timer ??= this.#clock.after(CLOSE_MS, () => void this.#look());
    return group;
  }

  async #look(): Promise<void> {
    this.#timer = null;
    this.#isLooking = true;
    const began = this.#clock.monotonic();
    const look = { at: began, onHost: unmappedOnHost() };
    let isClose = false;
    for (const group of this.#groups) if ((await this.#lookAt(group, look)) > CLOSE_SHARE) isClose = true;
    this.#isLooking = false;
    if (this.#groups.size === 0) return;
    const pause = Math.max(isClose ? CLOSE_MS : CALM_MS, REST_FACTOR * (this.#clock.monotonic() - began));
    this.#timer = this.#clock.after(pause, () => void this.#look());
  }

  /** Ends the processes of a group if they use too much. Gives the share of its limit that they use, at most. */
  async #lookAt(group: WatchedGroup, look: Look): Promise<number> {
    const resident = sum(group.members().map(residentBytes));
    const { maxBytes } = group;
    const known = this.#mostUnmapped(group, look);
    if (resident + known.bytes <= maxBytes * (known.isCounted ? 1 : CLOSE_SHARE))
      return (resident + (known.isCounted ? known.bytes : 0)) / maxBytes;
    if (this.#count?.at !== look.at) this.#count = await this.#countAll(look);
    const charged = this.#count.charges.get(group) ?? NOTHING;
    const share = (resident + charged.files + charged.rest + charged.tables) / maxBytes;
    if (share > 1 && (await usedBytes(group.members(), charged)) > maxBytes) group.endAll();
    return share;
  }

  /** What a group can hold unmapped at most: what it held when that was last counted, and all that has come since. */
  #mostUnmapped(group: WatchedGroup, { at, onHost }: Look): { bytes: number; isCounted: boolean } {
    const count = this.#count;
    const charged = count?.charges.get(group);
    if (!count || !charged || at - count.at > COUNT_MS) return { bytes: onHost, isCounted: false };
    const since = Math.max(0, onHost - count.onHost);
    return { bytes: charged.files + charged.rest + charged.tables + since, isCounted: true };
  }

  async #countAll({ at, onHost }: Look): Promise<Count> {
    const groups = [...this.#groups];
    const made = segments();
    const held = [];
    for (const group of groups) held.push(await heldBy(group.members().filter(isLiving), made));
    const charges = charge(held);
    return { at, onHost, charges: new Map(groups.map((group, index) => [group, charges[index] ?? NOTHING])) };
  }
}

/** What all groups are looked at with. */
type Look = Pick<Count, "at" | "onHost">;

const NOTHING: Charge = { files: 0, rest: 0, tables: 0 };

class WatchedGroup implements LimitGroup {
  readonly maxBytes: number;
  readonly #pids = new Set<number>();
  readonly #roots: Set<number>;
  readonly #onRemoved: () => void;
  #hasRunOut = false;

  constructor(maxBytes: number, roots: Set<number>, onRemoved: () => void) {
    this.maxBytes = maxBytes;
    this.#roots = roots;
    this.#onRemoved = onRemoved;
  }

  async add(pid: number): Promise<void> {
    this.#pids.add(pid);
    this.#roots.add(pid);
  }

  ranOut(): boolean {
    return this.#hasRunOut;
  }

  remove(): void {
    for (const pid of this.#pids) this.#roots.delete(pid);
    this.#pids.clear();
    this.#onRemoved();
  }

  /** Its processes, as they are now. */
  members(): number[] {
    return [...this.#pids].flatMap((root) => [root, ...belowOnly(root, this.#roots)]);
  }

  /** Ends its processes: those that it has now, as the pids of others may be used again. */
  endAll(): void {
    if (this.#pids.size > 0) this.#hasRunOut = true;
    for (const pid of this.members()) end(pid);
  }
}

/** The processes below one, without those of groups further down. */
function belowOnly(root: number, roots: ReadonlySet<number>): number[] {
  const all = below(root).living;
  const others = all.filter((pid) => roots.has(pid));
  const excluded = new Set(others.flatMap((other) => [other, ...below(other).living]));
  return all.filter((pid) => !excluded.has(pid));
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

function isLiving(pid: number): boolean {
  return residentBytes(pid) > 0;
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

/**
 * What processes use, with what their group is charged for. Files that they have mapped are among both: the larger of
 * the two counts, so that no app ends for memory that it does not use.
 */
async function usedBytes(pids: readonly number[], { files, rest, tables }: Charge): Promise<number> {
  const all = await Promise.all(pids.filter(isLiving).map(proportionalBytes));
  const mapped = sum(all.map(({ inFiles }) => inFiles));
  return sum(all.map(({ other }) => other)) + Math.max(mapped, files) + rest + tables;
}

/** All it has, where the kernel does not tell: an app can hide what it shares, and then nothing is shared. */
async function proportionalBytes(pid: number): Promise<{ inFiles: number; other: number }> {
  const resident = residentBytes(pid);
  const residentInFiles = Math.min(resident, bytesOf(statusOf(threadsOf(pid, "/proc")), "RssShmem"));
  try {
    const text = await readFile(`/proc/${pid}/smaps_rollup`, "latin1");
    const all = bytesOf(text, "Pss");
    // Kernels before 5.3 do not tell the two apart.
    const inFiles = text.includes("\nPss_Shmem:") ? bytesOf(text, "Pss_Shmem") : residentInFiles;
    if (all > 0) return { inFiles, other: Math.max(0, all - inFiles) };
  } catch {
    // It is hidden.
  }
  return { inFiles: residentInFiles, other: resident - residentInFiles };
}

/** Not the keeper that the service has started: it tells how what it kept has ended. */
function end(pid: number): void {
  try {
    if (readStat(`${pid}`, "/proc").parent !== process.pid) process.kill(pid, "SIGKILL");
  } catch {
    // It has just ended.
  }
}
