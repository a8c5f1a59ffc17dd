import type { Gpu, GpuWish } from "../../../src/model/gpu.ts";
import {
  type BrokerView,
  type Held,
  poolsFor,
  Room,
  type Share,
  type Waiting,
} from "../../../src/host/gpus/room.ts";

type Decision = {
  readonly grants: readonly { readonly id: number; readonly gpus: readonly Gpu[] }[];
  readonly evictions: readonly { readonly id: number; readonly forId: number }[];
  /** The UUIDs of the GPUs that a wish will get after evictions. */
  readonly promises: readonly { readonly id: number; readonly gpus: readonly string[] }[];
  /** When a replica may be evicted that is protected now; null if no such time is known. */
  readonly lookAgainMs: number | null;
};

/** Sets of replicas that are tried in a turn for the fewest evictions; after that, one good set is taken. */
const MAX_TRIED = 2_000;

/**
 * The plain way to decide, with which the quick one of `src/host/gpus/decide.ts` is compared: it looks at everything anew for
 * each wish.
 *
 * What to do for the wishes that wait, in order of arrival. A wish is granted if all its GPUs are free; else idle replicas
 * are evicted for it; else it waits, and later wishes get nothing of the GPUs that it may still need.
 */
export function decide(view: BrokerView): Decision {
  const turn = new Turn(view);
  turn.keepPromises();
  // An app may have thousands of replicas that wait: where one gets nothing, the next that asks for the same gets nothing.
  const stuck = new Map<string, GpuWish>();
  for (const waiting of view.waiting) {
    if (stuck.get(waiting.tenant) === waiting.wish && waiting.promised.length === 0) continue;
    const before = turn.evictions.length;
    if (!turn.serve(waiting)) stuck.set(waiting.tenant, waiting.wish);
    // It may have made room for others.
    if (turn.evictions.length > before || waiting.promised.length > 0) stuck.clear();
  }
  return turn;
}

/** How many more replicas of a tenant may be evicted. */
class Budgets {
  readonly #left: Map<string, number>;

  constructor(left: ReadonlyMap<string, number>) {
    this.#left = new Map(left);
  }

  copy(): Budgets {
    return new Budgets(this.#left);
  }

  has({ tenant }: Held): boolean {
    return (this.#left.get(tenant) ?? 0) > 0;
  }

  spend({ tenant }: Held, more = 1): void {
    this.#left.set(tenant, (this.#left.get(tenant) ?? 0) - more);
  }
}

class Turn implements Decision {
  readonly grants: { id: number; gpus: readonly Gpu[] }[] = [];
  readonly evictions: { id: number; forId: number }[] = [];
  readonly promises: { id: number; gpus: readonly string[] }[] = [];
  lookAgainMs: number | null = null;

  readonly #view: BrokerView;
  readonly #rooms: readonly Room[];
  /** Everything that has a share, with what is granted in this turn. */
  readonly #held: Held[];
  readonly #ending: Set<Held>;
  readonly #on = new Map<Room, Held[]>();
  readonly #tries = { left: MAX_TRIED };
  /** What wishes will get as soon as replicas are gone that are ending. */
  readonly #kept = new Map<Room, Map<number, Share>>();
  /** What earlier wishes may need, and do not know yet. */
  readonly #blocked = new Set<Room>();

  constructor(view: BrokerView) {
    this.#view = view;
    this.#held = [...view.held];
    this.#ending = new Set(view.held.filter(({ isEnding }) => isEnding));
    this.#rooms = view.gpus.filter(({ fault }) => fault === null).map((gpu) => new Room(gpu, view));
    for (const room of this.#rooms) this.#on.set(room, [...room.held]);
  }

  /** Else an earlier wish of the app whose replica was evicted could take its place, and the next one be evicted. */
  keepPromises(): void {
    for (const waiting of this.#view.waiting) {
      const rooms = this.#rooms.filter(({ gpu }) => waiting.promised.includes(gpu.uuid));
      const isPossible = rooms.length === waiting.wish.count;
      if (isPossible && rooms.every((room) => this.#fitsLater(room, waiting, NONE)))
        this.#keep(waiting, rooms);
    }
  }

  /** Returns false if it can only wait for what is busy. */
  serve(waiting: Waiting): boolean {
    for (const kept of this.#kept.values()) kept.delete(waiting.id);
    const pools = poolsFor(waiting.wish, this.#rooms, this.#view.matches);
    for (const pool of pools) if (this.#grant(waiting, pool) || this.#makeRoom(waiting, pool)) return true;
    const budgets = this.#budgets();
    const others = this.#removable(waiting, budgets);
    for (const pool of pools) this.#block(waiting, pool, others, budgets);
    return false;
  }

  /** Grants GPUs that are free now and that no earlier wish needs. */
  #grant(waiting: Waiting, pool: readonly Room[]): boolean {
    const { wish } = waiting;
    const chosen = byFit(pool, (room) => this.#now(room))
      .filter((room) => this.#fitsNow(room, waiting) && this.#fitsLater(room, waiting, NONE))
      .slice(0, wish.count);
    if (chosen.length < wish.count) return false;
    const gpus = chosen.map(({ gpu }) => gpu);
    this.grants.push({ id: waiting.id, gpus });
    const held: Held = {
      ...waiting,
      gpus: gpus.map(({ uuid }) => uuid),
      memoryBytes: wish.memoryBytes,
      pids: new Set(),
      grantedMs: this.#view.nowMs,
      idleSinceMs: null,
      isEnding: false,
    };
    this.#held.push(held);
    for (const room of chosen) this.#now(room).push(held);
    return true;
  }

  /** Keeps GPUs that will be free soon, and evicts idle replicas where that is needed. */
  #makeRoom(waiting: Waiting, pool: readonly Room[]): boolean {
    const budgets = this.#budgets();
    const grantedMs = this.#grantedMs();
    const evictable: Held[] = [];
    for (const held of this.#removable(waiting, budgets)) {
      if (held.idleSinceMs === null) continue;
      const freeMs = grantedMs.get(held.tenant)! + this.#view.holdMs;
      if (freeMs <= this.#view.nowMs) evictable.push(held);
      else this.lookAgainMs = Math.min(freeMs, this.lookAgainMs ?? freeMs);
    }
    evictable.sort((a, b) => (a.idleSinceMs ?? 0) - (b.idleSinceMs ?? 0) || a.id - b.id);
    const fits = (room: Room, gone: ReadonlySet<Held>): boolean => this.#fitsLater(room, waiting, gone);
    const gone = fewest(evictable, budgets, pool, waiting.wish.count, fits, this.#tries);
    if (!gone) return false;
    const ready = pool.filter((room) => fits(room, gone));
    const isFree = (room: Room): boolean => this.#fitsNow(room, waiting);
    const chosen = byFit(ready, (room) => this.#later(room, gone)).toSorted(
      (a, b) => Number(isFree(b)) - Number(isFree(a)),
    );
    const rooms = chosen.slice(0, waiting.wish.count);
    this.#keep(waiting, rooms);
    if (gone.size > 0) this.promises.push({ id: waiting.id, gpus: rooms.map(({ gpu }) => gpu.uuid) });
    for (const held of gone) {
      this.#ending.add(held);
      this.evictions.push({ id: held.id, forId: waiting.id });
    }
    return true;
  }

  /** Keeps later wishes from the GPUs that this one could have once replicas are idle that are busy now. */
  #block(waiting: Waiting, pool: readonly Room[], others: readonly Held[], budgets: Budgets): void {
    const share = shareOf(waiting);
    const fits = (room: Room, gone: ReadonlySet<Held>): boolean =>
      room.admits(share, [...this.#staying(room, gone), ...this.#promisedOn(room, waiting)]);
    if (!one(others, budgets, pool, waiting.wish.count, fits)) return;
    const all = new Set(others);
    for (const room of pool) if (fits(room, all)) this.#blocked.add(room);
  }

  #keep(waiting: Waiting, rooms: readonly Room[]): void {
    for (const room of rooms) {
      const kept = this.#kept.get(room) ?? new Map<number, Share>();
      this.#kept.set(room, kept.set(waiting.id, shareOf(waiting)));
    }
  }

  #fitsNow(room: Room, waiting: Waiting): boolean {
    return !this.#blocked.has(room) && room.admits(shareOf(waiting), this.#now(room));
  }

  /** Whether it fits beside what earlier wishes will get. */
  #fitsLater(room: Room, waiting: Waiting, gone: ReadonlySet<Held>): boolean {
    return !this.#blocked.has(room) && room.admits(shareOf(waiting), this.#later(room, gone));
  }

  #now(room: Room): Held[] {
    return this.#on.get(room)!;
  }

  #later(room: Room, gone: ReadonlySet<Held>): Share[] {
    return [...this.#staying(room, gone), ...(this.#kept.get(room)?.values() ?? [])];
  }

  #staying(room: Room, gone: ReadonlySet<Held>): Held[] {
    return this.#now(room).filter((held) => !this.#ending.has(held) && !gone.has(held));
  }

  /** What later wishes were promised; ids grow. */
  #promisedOn(room: Room, { id }: Waiting): Share[] {
    return [...(this.#kept.get(room) ?? [])].flatMap(([other, share]) => (other > id ? [share] : []));
  }

  /** What could be taken from other tenants, were it idle. */
  #removable(waiting: Waiting, budgets: Budgets): Held[] {
    return this.#held.filter(
      (held) => held.tenant !== waiting.tenant && !this.#ending.has(held) && budgets.has(held),
    );
  }

  #budgets(): Budgets {
    const left = new Map<string, number>();
    for (const held of this.#held) {
      if (this.#ending.has(held)) continue;
      const minimum = this.#view.minimums.get(held.tenant) ?? 0;
      left.set(held.tenant, (left.get(held.tenant) ?? -minimum) + 1);
    }
    return new Budgets(left);
  }

  /** When each tenant last got a GPU. */
  #grantedMs(): Map<string, number> {
    const last = new Map<string, number>();
    for (const held of this.#held) {
      if (this.#ending.has(held)) continue;
      last.set(held.tenant, Math.max(held.grantedMs, last.get(held.tenant) ?? held.grantedMs));
    }
    return last;
  }
}

const NONE: ReadonlySet<Held> = new Set();

type Fits = (room: Room, gone: ReadonlySet<Held>) => boolean;

function shareOf({ projectId, wish }: Waiting): Share {
  return { projectId, memoryBytes: wish.memoryBytes };
}

/** The fullest GPUs first, so that whole ones stay free. */
function byFit(pool: readonly Room[], sharesOn: (room: Room) => readonly Share[]): Room[] {
  const rows = pool.map((room) => {
    const shares = sharesOn(room);
    return { room, isEmpty: Number(shares.length === 0), available: room.availableBytes(shares) };
  });
  rows.sort((a, b) => a.isEmpty - b.isEmpty || a.available - b.available);
  return rows.map(({ room }) => room);
}

/**
 * The fewest replicas without which a wish fits, the longest idle if there is a choice; null if there are none. They come in
 * order of preference.
 */
function fewest(
  from: readonly Held[],
  budgets: Budgets,
  pool: readonly Room[],
  count: number,
  fits: Fits,
  tries: { left: number },
): ReadonlySet<Held> | null {
  const onPool = from.filter(({ gpus }) => pool.some(({ gpu }) => gpus.includes(gpu.uuid)));
  // Most wishes that cannot be served are seen here.
  if (!hasRoom(pool, count, new Set(onPool), fits)) return null;
  const left = budgets.copy();
  const gone = new Set<Held>();
  const enough = one(onPool, budgets, pool, count, fits);
  const most = enough?.size ?? onPool.length;
  const search = (start: number, more: number): boolean => {
    if (more === 0) {
      tries.left -= 1;
      return hasRoom(pool, count, gone, fits);
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

function hasRoom(pool: readonly Room[], count: number, gone: ReadonlySet<Held>, fits: Fits): boolean {
  let found = 0;
  for (const room of pool) {
    if (fits(room, gone)) found += 1;
    if (found >= count) return true;
  }
  return false;
}

/** Some replicas without which a wish fits, GPU by GPU, always the one where the fewest are in the way. */
function one(
  from: readonly Held[],
  budgets: Budgets,
  pool: readonly Room[],
  count: number,
  fits: Fits,
): ReadonlySet<Held> | null {
  const left = budgets.copy();
  const gone = new Set<Held>();
  while (!hasRoom(pool, count, gone, fits)) {
    let best: readonly Held[] | null = null;
    for (const room of pool) {
      if (fits(room, gone)) continue;
      const there = inTheWay(room, from, left, gone, fits);
      if (there && (!best || there.length < best.length)) best = there;
    }
    if (!best) return null;
    for (const held of best) {
      gone.add(held);
      left.spend(held);
    }
  }
  return gone;
}

/** Replicas that have to leave one GPU; null if that is not enough. */
function inTheWay(
  room: Room,
  from: readonly Held[],
  budgets: Budgets,
  gone: ReadonlySet<Held>,
  fits: Fits,
): readonly Held[] | null {
  const left = budgets.copy();
  const without = new Set(gone);
  const taken: Held[] = [];
  for (const held of from) {
    if (without.has(held) || !held.gpus.includes(room.gpu.uuid) || !left.has(held)) continue;
    if (fits(room, without)) break;
    left.spend(held);
    without.add(held);
    taken.push(held);
  }
  if (!fits(room, without)) return null;
  return taken.filter((held) => {
    without.delete(held);
    if (fits(room, without)) return false;
    without.add(held);
    return true;
  });
}
