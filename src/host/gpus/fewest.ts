import type { Held, Room } from "./room.ts";

export const NONE: ReadonlySet<Held> = new Set();

/** How many more replicas of a tenant may be evicted. */
export class Budgets {
  readonly #at: ReadonlyMap<string, number>;
  /** What has changed since: copies are made often. */
  readonly #now: Map<string, number>;

  constructor(left: ReadonlyMap<string, number>, now: ReadonlyMap<string, number> = new Map()) {
    this.#at = left;
    this.#now = new Map(now);
  }

  copy(): Budgets {
    return new Budgets(this.#at, this.#now);
  }

  leftOf({ tenant }: Held): number {
    return this.#now.get(tenant) ?? this.#at.get(tenant) ?? 0;
  }

  has(held: Held): boolean {
    return this.leftOf(held) > 0;
  }

  spend(held: Held, more = 1): void {
    this.#now.set(held.tenant, this.leftOf(held) - more);
  }
}

type Leaving = {
  /** Whether the wish fits on a GPU without those replicas. If it does, it also does without more of them. */
  readonly fits: (room: Room, gone: ReadonlySet<Held>) => boolean;
  /** At least so many more have to leave a GPU where it does not fit. */
  readonly least: (room: Room, gone: ReadonlySet<Held>) => number;
  /** The replicas that may leave, in order of preference. */
  readonly all: readonly Held[];
  readonly set: ReadonlySet<Held>;
  /** Those of them on one GPU. */
  readonly on: (room: Room) => readonly Held[];
};

/** Which replicas may leave a pool of GPUs, so that a wish has room on `count` of them. */
export class Ways {
  readonly pool: readonly Room[];
  readonly count: number;
  readonly leaving: Leaving;
  /** Where the wish fits although nothing leaves. */
  readonly free: ReadonlySet<Room>;
  #arePossible: boolean | null = null;
  readonly #byUuid: ReadonlyMap<string, Room>;

  constructor(pool: readonly Room[], count: number, leaving: Leaving) {
    this.pool = pool;
    this.count = count;
    this.leaving = leaving;
    this.free = new Set(pool.filter((room) => leaving.fits(room, NONE)));
    this.#byUuid = new Map(pool.map((room) => [room.gpu.uuid, room]));
  }

  /** Those that have a GPU of the pool. */
  onPool(): readonly Held[] {
    return this.leaving.all.filter(({ gpus }) => gpus.some((uuid) => this.#byUuid.has(uuid)));
  }

  *roomsOf({ gpus }: Held): Generator<Room> {
    for (const uuid of gpus) {
      const room = this.#byUuid.get(uuid);
      if (room) yield room;
    }
  }

  /** Whether it has room if all of them leave. Most wishes that cannot be served are seen here. */
  get arePossible(): boolean {
    return (this.#arePossible ??= this.#findPossible());
  }

  #findPossible(): boolean {
    let found = this.free.size;
    for (const room of this.pool) {
      if (found >= this.count) return true;
      if (!this.free.has(room) && this.leaving.fits(room, this.leaving.set)) found += 1;
    }
    return found >= this.count;
  }

  /** Whether it has room without those: only where they are it may have none with them. */
  suffices(gone: ReadonlySet<Held>): boolean {
    const found = new Set<Room>();
    if (this.free.size >= this.count) return true;
    for (const held of gone)
      for (const room of this.roomsOf(held))
        if (!this.free.has(room) && !found.has(room) && this.leaving.fits(room, gone)) {
          found.add(room);
          if (this.free.size + found.size >= this.count) return true;
        }
    return false;
  }
}

/**
 * The fewest replicas without which a wish fits, the longest idle if there is a choice; null if there are none. They come in
 * order of preference.
 */
export function fewest(ways: Ways, budgets: Budgets, tries: { left: number }): ReadonlySet<Held> | null {
  if (!ways.arePossible) return null;
  const left = budgets.copy();
  const gone = new Set<Held>();
  const enough = one(ways, budgets);
  const onPool = tries.left > 0 ? ways.onPool() : [];
  const most = enough?.size ?? onPool.length;
  const search = (start: number, more: number): boolean => {
    if (more === 0) {
      tries.left -= 1;
      return ways.suffices(gone);
    }
    for (let i = start; i <= onPool.length - more && tries.left > 0; i++) {
      const held = onPool[i]!;
      if (!left.has(held)) continue;
      left.spend(held);
      gone.add(held);
      if (search(i + 1, more - 1)) return true;
      gone.delete(held);
      left.spend(held, -1);
    }
    return false;
  };
  for (let size = 0; size <= most && tries.left > 0; size++) if (search(0, size)) return gone;
  return enough;
}

/** Some replicas without which a wish fits, GPU by GPU, always the one where the fewest are in the way. */
export function one(ways: Ways, budgets: Budgets): ReadonlySet<Held> | null {
  if (!ways.arePossible) return null;
  const { fits, least } = ways.leaving;
  const left = budgets.copy();
  const gone = new Set<Held>();
  const fitting = new Set(ways.free);
  while (fitting.size < ways.count) {
    let best: readonly Held[] | null = null;
    for (const room of ways.pool) {
      if (fitting.has(room) || (best && least(room, gone) >= best.length)) continue;
      const there = inTheWay(room, ways, left, gone);
      if (there && (!best || there.length < best.length)) best = there;
    }
    if (!best) return null;
    for (const held of best) {
      gone.add(held);
      left.spend(held);
    }
    for (const held of best) for (const room of ways.roomsOf(held)) if (fits(room, gone)) fitting.add(room);
  }
  return gone;
}

/** Replicas that have to leave one GPU; null if that is not enough. `gone` is as before when it returns. */
function inTheWay(room: Room, ways: Ways, budgets: Budgets, gone: Set<Held>): readonly Held[] | null {
  const { fits, on } = ways.leaving;
  const taken: Held[] = [];
  const left = new Map<string, number>();
  for (const held of on(room)) {
    if (gone.has(held)) continue;
    const more = left.get(held.tenant) ?? budgets.leftOf(held);
    if (more > 0) taken.push(held);
    left.set(held.tenant, more - 1);
  }
  const isEnough = (first: number): boolean => {
    for (const held of taken) gone.delete(held);
    for (let i = 0; i < first; i++) gone.add(taken[i]!);
    return fits(room, gone);
  };
  let needed: readonly Held[] | null = null;
  if (isEnough(taken.length)) {
    // The fewest of the first, by halving.
    let [low, high] = [0, taken.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isEnough(middle)) high = middle;
      else low = middle + 1;
    }
    isEnough(high);
    needed = taken.slice(0, high).filter((held) => {
      gone.delete(held);
      if (fits(room, gone)) return false;
      gone.add(held);
      return true;
    });
  }
  for (const held of taken) gone.delete(held);
  return needed;
}
