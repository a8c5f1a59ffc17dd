import type { Gpu, GpuKind, GpuReading, GpuWish } from "../../model/gpu.ts";

/** Whether a GPU is one of those that people mean by a model's name. */
export type Matches = (asked: string, gpu: GpuKind) => boolean;

/** A share of GPUs that is taken: granted, or kept for a wish that waits. */
export type Share = {
  readonly projectId: string;
  /** Of each GPU; null for all of it. */
  readonly memoryBytes: number | null;
};

/** A grant that has not come back yet. */
export type Held = Share & {
  readonly id: number;
  readonly tenant: string;
  readonly app: string;
  /** The UUIDs of its GPUs. */
  readonly gpus: readonly string[];
  /** Of the host; none if they are not known. */
  readonly pids: ReadonlySet<number>;
  readonly grantedMs: number;
  /** Null while it is busy. */
  readonly idleSinceMs: number | null;
  /** Its replica is being stopped, or its memory is not free yet. */
  readonly isEnding: boolean;
};

/** A wish that has not been granted yet. */
export type Waiting = {
  readonly id: number;
  readonly tenant: string;
  readonly app: string;
  readonly projectId: string;
  readonly wish: GpuWish;
  /** The UUIDs of GPUs where replicas were evicted for it; empty if none were. */
  readonly promised: readonly string[];
};

/** Everything that a decision depends on. */
export type BrokerView = {
  readonly nowMs: number;
  /** How long an app that was granted a GPU is not evicted. */
  readonly holdMs: number;
  readonly sharesAcrossProjects: boolean;
  readonly matches: Matches;
  /** In the order of PCI bus ids. */
  readonly gpus: readonly Gpu[];
  /** By UUID. */
  readonly readings: ReadonlyMap<string, GpuReading>;
  readonly held: readonly Held[];
  /** In order of arrival. */
  readonly waiting: readonly Waiting[];
  /** How many replicas of a tenant are never evicted. */
  readonly minimums: ReadonlyMap<string, number>;
};

/** What has to be free, as measured, of a GPU that is granted whole. */
const WHOLE_FREE = 0.9;

/**
 * What processes hold of that GPU, as measured; null if that is not known. A process that is missing from the driver's list
 * holds nothing.
 */
export function usedBytesOf(
  { pids }: { readonly pids: ReadonlySet<number> },
  reading: GpuReading | undefined,
): number | null {
  if (!reading?.processes || pids.size === 0) return null;
  let sum = 0;
  for (const { pid, usedBytes } of reading.processes) {
    if (!pids.has(pid)) continue;
    if (usedBytes === null) return null;
    sum += usedBytes;
  }
  return sum;
}

/** What is held of one GPU by grants and by others. */
export class Room {
  readonly gpu: Gpu;
  /** Used by processes that are not ours, or by ours beyond their shares; 0 if it cannot be measured. */
  readonly outsideBytes: number;
  readonly held: readonly Held[];
  readonly #used = new Map<Held, number | null>();
  readonly #sharesAcrossProjects: boolean;

  constructor(gpu: Gpu, view: BrokerView) {
    this.gpu = gpu;
    this.held = view.held.filter(({ gpus }) => gpus.includes(gpu.uuid));
    this.#sharesAcrossProjects = view.sharesAcrossProjects;
    const reading = view.readings.get(gpu.uuid);
    let ours = 0;
    for (const held of this.held) {
      const used = usedBytesOf(held, reading);
      this.#used.set(held, used);
      // If a replica's use is not known, what is used counts as its own up to its share.
      ours += used ?? this.#shareOf(held);
    }
    const freeBytes = reading?.freeBytes ?? null;
    this.outsideBytes = freeBytes === null ? 0 : Math.max(0, gpu.memoryBytes - freeBytes - ours);
  }

  /** What another share could have beside those. */
  availableBytes(beside: Iterable<Share>, outsideBytes = this.outsideBytes): number {
    let available = this.gpu.memoryBytes - outsideBytes;
    for (const share of beside) available -= this.#takes(share);
    return Math.max(0, available);
  }

  /** Whether a share has room beside those. */
  admits(share: Share, beside: readonly Share[], outsideBytes = this.outsideBytes): boolean {
    const { memoryBytes } = this.gpu;
    if (share.memoryBytes === null)
      return beside.length === 0 && memoryBytes - outsideBytes >= WHOLE_FREE * memoryBytes;
    if (!beside.every((other) => this.mayMeet(share, other))) return false;
    return this.availableBytes(beside, outsideBytes) >= share.memoryBytes;
  }

  /** What `admits` says of those shares but for some of them, without lists of them: decisions ask it thousands of times. */
  admitsWithout(
    share: Share,
    held: readonly Held[],
    gone: ReadonlySet<Held>,
    kept: Iterable<Share>,
  ): boolean {
    const { memoryBytes } = this.gpu;
    const isWhole = share.memoryBytes === null;
    let available = memoryBytes - this.outsideBytes;
    if (available < (share.memoryBytes ?? WHOLE_FREE * memoryBytes)) return false;
    for (const other of held) {
      if (gone.has(other)) continue;
      if (isWhole || !this.mayMeet(share, other)) return false;
      available -= this.#takes(other);
    }
    for (const other of kept) {
      if (isWhole || !this.mayMeet(share, other)) return false;
      available -= this.#takes(other);
    }
    return isWhole || Math.max(0, available) >= share.memoryBytes;
  }

  /** As many of those have to leave at least before a share has room; 1 if none has to. */
  leastToLeave(share: Share, held: readonly Held[], gone: ReadonlySet<Held>): number {
    let [there, largest, available] = [0, 0, this.gpu.memoryBytes - this.outsideBytes];
    for (const other of held) {
      if (gone.has(other)) continue;
      const takes = this.#takes(other);
      there += 1;
      largest = Math.max(largest, takes);
      available -= takes;
    }
    if (share.memoryBytes === null) return Math.max(1, there);
    return Math.max(1, Math.ceil((share.memoryBytes - available) / largest));
  }

  /** Whether two shares may be on one GPU at all. */
  mayMeet(one: Share, other: Share): boolean {
    if (one.memoryBytes === null || other.memoryBytes === null) return false;
    return this.#sharesAcrossProjects || one.projectId === other.projectId;
  }

  #shareOf({ memoryBytes }: Share): number {
    return memoryBytes ?? this.gpu.memoryBytes;
  }

  #takes(share: Share): number {
    const used = this.#used.get(share as Held) ?? 0;
    return Math.max(this.#shareOf(share), used);
  }
}

/**
 * The GPUs that a wish may have, by the name that it asks for and by model, in its order of preference. A name that means no more
 * than an earlier one adds no pool; one that means more, such as A100 after A100_80GB, has all of its GPUs.
 */
export function poolsFor<Place extends { readonly gpu: GpuKind }>(
  { models }: GpuWish,
  places: readonly Place[],
  matches: Matches,
): Place[][] {
  const pools: Place[][] = [];
  for (const asked of models) {
    const found = places.filter(({ gpu }) => matches(asked, gpu));
    for (const pool of Map.groupBy(found, ({ gpu }) => gpu.model).values()) {
      const isKnown = pools.some(
        (before) =>
          before[0]?.gpu.model === pool[0]?.gpu.model && pool.every((each) => before.includes(each)),
      );
      if (!isKnown) pools.push(pool);
    }
  }
  return pools;
}
