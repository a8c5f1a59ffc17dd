import type { Gpu, GpuWish } from "../../model/gpu.ts";
import { Budgets, fewest, NONE, one, Ways } from "./fewest.ts";
import { type BrokerView, type Held, poolsFor, Room, type Share, type Waiting } from "./room.ts";

export type Decision = {
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

/** Replicas in order of preference. */
class Candidates {
  all: readonly Held[];
  readonly set: Set<Held>;
  /** Their tenants, and perhaps others. */
  readonly #tenants: ReadonlySet<string>;

  constructor(all: readonly Held[]) {
    this.all = all;
    this.set = new Set(all);
    this.#tenants = new Set(all.map(({ tenant }) => tenant));
  }

  keep(isKept: (held: Held) => boolean): void {
    for (const held of this.all) if (!isKept(held)) this.set.delete(held);
    this.all = this.all.filter((held) => this.set.has(held));
  }

  /** Those that are not the wish's own app's. */
  for({ tenant }: Waiting): Candidates {
    return this.#tenants.has(tenant)
      ? new Candidates(this.all.filter((held) => held.tenant !== tenant))
      : this;
  }
}

type Idle = {
  /** Replicas that may be evicted, the longest idle first. */
  readonly idle: Candidates;
  /** Tenants that got a GPU a moment ago and have others, with the end of their protection. */
  readonly protectedMs: ReadonlyMap<string, number>;
};

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
  /** Of those, the ones that are not ending. */
  readonly #left = new Map<Room, Held[]>();
  /** By the models that they ask for: most wishes ask for the same. */
  readonly #pools = new Map<string, readonly (readonly Room[])[]>();
  /** Null if something was granted or evicted since. */
  #knownBudgets: Budgets | null = null;
  #knownIdle: Idle | null = null;
  #knownRemovable: Candidates | null = null;
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
    for (const room of this.#rooms) this.#left.set(room, this.#staying(room));
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
    const pools = this.#poolsOf(waiting);
    for (const pool of pools) if (this.#grant(waiting, pool) || this.#makeRoom(waiting, pool)) return true;
    for (const pool of pools) this.#block(waiting, pool);
    return false;
  }

  /** Grants GPUs that are free now and that no earlier wish needs. */
  #grant(waiting: Waiting, pool: readonly Room[]): boolean {
    const { wish } = waiting;
    const free = pool.filter((room) => this.#fitsNow(room, waiting) && this.#fitsLater(room, waiting, NONE));
    if (free.length < wish.count) return false;
    const chosen = byFit(free, (room) => this.#now(room)).slice(0, wish.count);
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
    for (const room of chosen) {
      this.#now(room).push(held);
      this.#left.get(room)!.push(held);
    }
    this.#forget();
    return true;
  }

  /** Keeps GPUs that will be free soon, and evicts idle replicas where that is needed. */
  #makeRoom(waiting: Waiting, pool: readonly Room[]): boolean {
    const budgets = this.#budgets();
    const { protectedMs, idle } = this.#idle();
    for (const [tenant, freeMs] of protectedMs)
      if (tenant !== waiting.tenant) this.lookAgainMs = Math.min(freeMs, this.lookAgainMs ?? freeMs);
    const { all, set } = idle.for(waiting);
    const fits = (room: Room, gone: ReadonlySet<Held>): boolean => this.#fitsLater(room, waiting, gone);
    const ways = new Ways(pool, waiting.wish.count, {
      fits,
      least: (room, gone) => this.#least(room, waiting, gone),
      all,
      set,
      on: (room) =>
        this.#left
          .get(room)!
          .filter((held) => set.has(held))
          .toSorted(byIdleness),
    });
    const gone = fewest(ways, budgets, this.#tries);
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
    if (gone.size > 0) this.#leave(gone);
    return true;
  }

  /** Keeps later wishes from the GPUs that this one could have once replicas are idle that are busy now. */
  #block(waiting: Waiting, pool: readonly Room[]): void {
    if (pool.every((room) => this.#blocked.has(room))) return;
    const share = shareOf(waiting);
    const promised = new Map(pool.map((room) => [room, this.#promisedOn(room, waiting)]));
    const fits = (room: Room, gone: ReadonlySet<Held>): boolean =>
      this.#admits(room, share, gone, promised.get(room)!);
    const { all, set } = this.#removable().for(waiting);
    const ways = new Ways(pool, waiting.wish.count, {
      fits,
      least: (room, gone) => this.#least(room, waiting, gone),
      all,
      set,
      on: (room) => this.#left.get(room)!.filter((held) => set.has(held)),
    });
    if (!one(ways, this.#budgets())) return;
    for (const room of pool) if (fits(room, set)) this.#blocked.add(room);
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
    const kept = this.#kept.get(room)?.values() ?? [];
    return !this.#blocked.has(room) && this.#admits(room, shareOf(waiting), gone, kept);
  }

  #admits(room: Room, share: Share, gone: ReadonlySet<Held>, kept: Iterable<Share>): boolean {
    return room.admitsWithout(share, this.#left.get(room)!, gone, kept);
  }

  #poolsOf({ wish }: Waiting): readonly (readonly Room[])[] {
    const key = wish.models.join("\n");
    const known = this.#pools.get(key);
    if (known) return known;
    const pools = poolsFor(wish, this.#rooms, this.#view.matches);
    this.#pools.set(key, pools);
    return pools;
  }

  #now(room: Room): Held[] {
    return this.#on.get(room)!;
  }

  #later(room: Room, gone: ReadonlySet<Held>): Share[] {
    return [
      ...this.#left.get(room)!.filter((held) => !gone.has(held)),
      ...(this.#kept.get(room)?.values() ?? []),
    ];
  }

  #staying(room: Room): Held[] {
    return this.#now(room).filter((held) => !this.#ending.has(held));
  }

  /** What later wishes were promised; ids grow. */
  #promisedOn(room: Room, { id }: Waiting): Share[] {
    return [...(this.#kept.get(room) ?? [])].flatMap(([other, share]) => (other > id ? [share] : []));
  }

  /** What could be taken from tenants, were it idle. */
  #removable(): Candidates {
    const budgets = this.#budgets();
    return (this.#knownRemovable ??= new Candidates(
      this.#held.filter((held) => !this.#ending.has(held) && budgets.has(held)),
    ));
  }

  /** As many replicas have to leave a GPU at least. */
  #least(room: Room, waiting: Waiting, gone: ReadonlySet<Held>): number {
    return room.leastToLeave(shareOf(waiting), this.#left.get(room)!, gone);
  }

  /** Takes what is evicted from what may be: the others of its tenants that are kept by their minimum now, too. */
  #leave(gone: ReadonlySet<Held>): void {
    const budgets = this.#budgets();
    for (const held of gone) budgets.spend(held);
    const mayStill = (held: Held): boolean => !gone.has(held) && budgets.has(held);
    // A tenant whose replicas are evicted has none that is protected.
    this.#idle().idle.keep(mayStill);
    this.#removable().keep(mayStill);
    const uuids = new Set([...gone].flatMap(({ gpus }) => gpus));
    for (const room of this.#rooms) if (uuids.has(room.gpu.uuid)) this.#left.set(room, this.#staying(room));
  }

  #forget(): void {
    this.#knownBudgets = null;
    this.#knownIdle = null;
    this.#knownRemovable = null;
  }

  #budgets(): Budgets {
    return (this.#knownBudgets ??= this.#countBudgets());
  }

  #countBudgets(): Budgets {
    const left = new Map<string, number>();
    for (const held of this.#held) {
      if (this.#ending.has(held)) continue;
      const minimum = this.#view.minimums.get(held.tenant) ?? 0;
      left.set(held.tenant, (left.get(held.tenant) ?? -minimum) + 1);
    }
    return new Budgets(left);
  }

  #idle(): Idle {
    return (this.#knownIdle ??= this.#findIdle());
  }

  #findIdle(): Idle {
    const { nowMs, holdMs } = this.#view;
    const grantedMs = new Map<string, number>();
    for (const held of this.#held) {
      if (this.#ending.has(held)) continue;
      grantedMs.set(held.tenant, Math.max(held.grantedMs, grantedMs.get(held.tenant) ?? held.grantedMs));
    }
    const protectedMs = new Map<string, number>();
    const idle: Held[] = [];
    for (const held of this.#removable().all) {
      if (held.idleSinceMs === null) continue;
      const freeMs = grantedMs.get(held.tenant)! + holdMs;
      if (freeMs <= nowMs) idle.push(held);
      else protectedMs.set(held.tenant, freeMs);
    }
    return { idle: new Candidates(idle.toSorted(byIdleness)), protectedMs };
  }
}

function byIdleness(a: Held, b: Held): number {
  return (a.idleSinceMs ?? 0) - (b.idleSinceMs ?? 0) || a.id - b.id;
}

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
