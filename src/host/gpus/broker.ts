import { type Clock, pause, type Timer, withTimeout } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { GpuEviction, GpuGrant, GpuReading, GpuWish, HeldGpu } from "../../model/gpu.ts";
import { decide } from "./decide.ts";
import { type Minimum, withoutPlace } from "./minimums.ts";
import { asSeenBy, whatItAwaits, whyNever } from "./reasons.ts";
import { ProcessOwners, ReplicaProcesses } from "./replica-processes.ts";
import type { GpuSource } from "./source.ts";
import { type BrokerView, type Held, type Matches, poolsFor, Room, usedBytesOf } from "./room.ts";

/** An app's version, whose replicas use GPUs. */
export type Tenant = {
  readonly key: string;
  readonly app: string;
  readonly projectId: string;
  /** How many of its replicas are never evicted. */
  minReplicas(): number;
  /** Its replicas without calls, and since when, by the monotonic clock. */
  idle(): readonly { readonly claim: Claim; readonly sinceMs: number }[];
  /** Stops a replica for an app, as its people may read it, and releases its claim, at once; false if it has a call by now. */
  evict(claim: Claim, forWhom: string): boolean;
};

/** A wish, and later the grant of one replica. */
export type Claim = {
  /** Null if it was cancelled. */
  readonly granted: Promise<GpuGrant | null>;
  /** What it waits for, for people; null if it does not wait. */
  obstacle(): string | null;
  /** Gives up waiting. What has been granted needs `release`. */
  cancel(): void;
  /** A process that may hold memory of the GPUs, by the host's id, as may all that it starts; any number of them. */
  noteProcess(pid: number): void;
  /** Gives the GPUs back once those processes are gone and the memory is seen to be free. Idempotent. */
  release(processesGone: Promise<void>): void;
};

export type BrokerParts = {
  readonly source: Pick<GpuSource, "current" | "readings" | "look" | "onChange">;
  readonly matches: Matches;
  readonly clock: Clock;
  readonly log: Log;
  /** An app that was just granted a GPU is not evicted for so long. */
  readonly holdMs: number;
  readonly sharesAcrossProjects?: boolean;
  /** The process above one; null if there is none with that id. */
  readonly parentOf?: (pid: number) => number | null;
  /** A replica uses much more than its share while others wait. Called once per claim. */
  readonly onExcess?: (claim: Claim) => void;
};

/** What a replica may use above its share. */
const TOLERATED = 1.1;
/** Between two looks while wishes wait: replicas become idle, and other programs end. */
const FIRST_LOOK_MS = 100;
const LONGEST_LOOK_MS = 1_000;
/** Between two looks while memory is given back. The driver takes some 10 ms after the end of a process. */
const FIRST_SETTLE_MS = 20;
/** After that, memory counts as free if the processes are gone. */
const SETTLED_MS = 10_000;
/** Of one look at a driver that hangs. */
const LOOK_MS = 5_000;
/** A tenant that has not released a claim by then does not evict it. */
const EVICTED_MS = 1_000;
/** How many evictions are remembered. */
const MAX_EVICTIONS = 100;

type Entry = {
  readonly id: number;
  readonly replicaId: string;
  readonly tenant: Tenant;
  readonly wish: GpuWish;
  readonly claim: Claim;
  readonly resolve: (grant: GpuGrant | null) => void;
  readonly processes: ReplicaProcesses;
  phase: "waiting" | "granted" | "ending" | "over";
  grant: GpuGrant | null;
  grantedMs: number;
  /** Its tenant was asked to evict it, and has until then to release it. */
  evictedUntilMs: number | null;
  /** Where replicas were evicted for it. */
  promised: readonly string[];
  isExcessTold: boolean;
};

/** Grants the GPUs of one machine to replicas. */
export class GpuBroker {
  readonly #parts: BrokerParts;
  /** What waits and what is held, in order of arrival. */
  readonly #entries = new Map<Claim, Entry>();
  readonly #closing = new AbortController();
  readonly #stopListening: () => void;
  /** What was said just now: thousands of replicas of one app may wait, and all are listed at once. */
  readonly #obstacles = new Map<GpuWish, Map<Tenant, string | null>>();
  readonly #owners: ProcessOwners;
  #evictions: readonly GpuEviction[] = [];
  #lastId = 0;
  #isDue = false;
  #isLooking = false;
  #lookMs = FIRST_LOOK_MS;
  #timer: Timer | null = null;

  constructor(parts: BrokerParts) {
    this.#parts = parts;
    this.#owners = new ProcessOwners(parts.parentOf);
    this.#stopListening = parts.source.onChange(() => this.#changed());
  }

  /** Asks for GPUs for one replica. They are granted all at once, later than this returns. */
  request(wish: GpuWish, tenant: Tenant, replicaId: string): Claim {
    const { promise, resolve } = Promise.withResolvers<GpuGrant | null>();
    const claim: Claim = {
      granted: promise,
      obstacle: () => this.#obstacle(entry),
      cancel: () => this.#cancel(entry),
      noteProcess: (pid) => this.#noteProcess(entry, pid),
      release: (processesGone) => void this.#release(entry, processesGone),
    };
    this.#lastId += 1;
    const entry: Entry = {
      id: this.#lastId,
      replicaId,
      tenant,
      wish,
      claim,
      resolve,
      processes: new ReplicaProcesses(),
      phase: "waiting",
      grant: null,
      grantedMs: 0,
      evictedUntilMs: null,
      promised: [],
      isExcessTold: false,
    };
    this.#entries.set(claim, entry);
    if (this.#closing.signal.aborted) this.#cancel(entry);
    else {
      this.#lookMs = FIRST_LOOK_MS;
      // What the driver said before may be old.
      void this.#lookAgain();
    }
    return claim;
  }

  /** Why no GPU of this machine will ever serve a wish, for people; null if one may. */
  never(wish: GpuWish): string | null {
    return whyNever(wish, this.#parts.source.current(), this.#parts.matches);
  }

  /** The minimums that have no place on this machine beside the others; those that come first are placed first. */
  fits(minimums: readonly Minimum[]): readonly Minimum[] {
    const { source, matches, sharesAcrossProjects = false } = this.#parts;
    return withoutPlace(minimums, source.current().gpus, { matches, sharesAcrossProjects });
  }

  /** What is granted or not back yet. */
  use(): HeldGpu[] {
    const readings = this.#readings();
    return [...this.#entries.values()].flatMap(({ replicaId, tenant, processes, grant }) =>
      (grant?.gpus ?? []).map(({ uuid }) => ({
        gpu: uuid,
        app: tenant.app,
        projectId: tenant.projectId,
        replicaId,
        memoryBytes: grant?.memoryBytes ?? null,
        usedBytes: usedBytesOf({ pids: processes.all }, readings.get(uuid)),
      })),
    );
  }

  /** How many GPUs a replica holds; a share counts as that part of its GPU. */
  heldBy(replicaId: string): number {
    let held = 0;
    for (const { replicaId: holder, grant } of this.#entries.values()) {
      if (holder !== replicaId || !grant) continue;
      for (const { memoryBytes } of grant.gpus)
        held += grant.memoryBytes === null ? 1 : Math.min(1, grant.memoryBytes / memoryBytes);
    }
    return held;
  }

  /** The latest evictions, the oldest first. */
  evictions(): readonly GpuEviction[] {
    return this.#evictions;
  }

  /** Cancels what waits. What is granted stays so. */
  close(): void {
    this.#closing.abort();
    this.#stopListening();
    this.#timer?.cancel();
    for (const entry of this.#entries.values()) this.#cancel(entry);
  }

  #obstacle(entry: Entry): string | null {
    if (entry.phase !== "waiting") return null;
    const known = this.#obstacles.get(entry.wish)?.get(entry.tenant);
    if (known !== undefined) return known;
    const never = this.never(entry.wish);
    if (never !== null) return never;
    const view = this.#view();
    const waiting = view.waiting.find(({ id }) => id === entry.id);
    const obstacle = waiting ? whatItAwaits(view, waiting) : null;
    if (this.#obstacles.size === 0) queueMicrotask(() => this.#obstacles.clear());
    const ofWish = this.#obstacles.get(entry.wish) ?? new Map<Tenant, string | null>();
    this.#obstacles.set(entry.wish, ofWish.set(entry.tenant, obstacle));
    return obstacle;
  }

  #cancel(entry: Entry): void {
    if (entry.phase !== "waiting") return;
    this.#forget(entry);
    entry.resolve(null);
  }

  #forget(entry: Entry): void {
    entry.phase = "over";
    this.#entries.delete(entry.claim);
    this.#changed();
  }

  #noteProcess(entry: Entry, pid: number): void {
    // The kernel gave the id to a new process: the one before has ended.
    for (const { phase, processes } of this.#entries.values())
      if (phase === "ending") processes.named.delete(pid);
    entry.processes.named.add(pid);
    this.#owners.changed();
  }

  async #release(entry: Entry, processesGone: Promise<void>): Promise<void> {
    if (entry.phase === "waiting") return this.#cancel(entry);
    if (entry.phase !== "granted") return;
    entry.phase = "ending";
    const outside = this.#outsideBytes(entry, this.#view());
    this.#changed();
    try {
      await processesGone;
    } catch (error) {
      this.#parts.log.warn({ err: error }, "the end of a replica with a GPU could not be awaited");
    }
    await this.#settle(entry, outside);
    if (!this.#closing.signal.aborted) this.#forget(entry);
  }

  /** Waits until the driver shows that nothing of a grant is left; `outside` is what others used of its GPUs before. */
  async #settle(entry: Entry, outside: ReadonlyMap<string, number>): Promise<void> {
    const { clock, log } = this.#parts;
    const { signal } = this.#closing;
    let startMs = clock.monotonic();
    let isWarned = false;
    for (let waitMs = FIRST_SETTLE_MS; !signal.aborted; waitMs = Math.min(2 * waitMs, LONGEST_LOOK_MS)) {
      const hasLooked = await this.#look();
      // As long as it does not answer, nothing is known of its processes.
      if (!hasLooked) startMs = clock.monotonic();
      const hasProcesses = !hasLooked || this.#hasProcesses(entry);
      if (!hasProcesses && this.#isSeenFree(entry, outside)) return;
      if (clock.monotonic() - startMs >= SETTLED_MS) {
        const fields = { appName: entry.tenant.app, projectId: entry.tenant.projectId };
        if (!hasProcesses) {
          log.warn(fields, "the driver does not show that a replica's GPU memory is free; it counts as free");
          return;
        }
        if (!isWarned) log.warn(fields, "processes of a replica that was stopped still hold GPU memory");
        isWarned = true;
      }
      await pause(clock, waitMs, signal);
    }
  }

  /** False if the driver did not answer. */
  async #look(): Promise<boolean> {
    const { source, clock } = this.#parts;
    try {
      return (await withTimeout(LOOK_MS, source.look(), clock)) ?? false;
    } catch {
      return false;
    }
  }

  #hasProcesses(entry: Entry): boolean {
    const readings = this.#readings();
    const pids = entry.processes.all;
    return (entry.grant?.gpus ?? []).some(({ uuid }) =>
      readings.get(uuid)?.processes?.some(({ pid }) => pids.has(pid)),
    );
  }

  /** Whether its memory is back, or all that waits for it and would fit by its share also fits as measured. */
  #isSeenFree({ id, grant }: Entry, outside: ReadonlyMap<string, number>): boolean {
    const view = this.#view();
    const without = { ...view, held: view.held.filter((held) => held.id !== id) };
    const late = roomsOf(grant, without).filter(
      ({ gpu, outsideBytes }) => outsideBytes > (outside.get(gpu.uuid) ?? 0),
    );
    return view.waiting.every(({ wish, projectId }) => {
      const share = { projectId, memoryBytes: wish.memoryBytes };
      const rooms = poolsFor(wish, late, view.matches).flat();
      return rooms.every((room) => room.admits(share, room.held) || !room.admits(share, room.held, 0));
    });
  }

  #outsideBytes({ grant }: Entry, view: BrokerView): ReadonlyMap<string, number> {
    return new Map(roomsOf(grant, view).map(({ gpu, outsideBytes }) => [gpu.uuid, outsideBytes]));
  }

  #readings(): ReadonlyMap<string, GpuReading> {
    const replicas = [...this.#entries.values()].map(({ processes }) => processes);
    return this.#owners.readingsOf(this.#parts.source.readings(), replicas);
  }

  #view(): BrokerView {
    const { source, matches, clock, holdMs, sharesAcrossProjects = false } = this.#parts;
    const nowMs = clock.monotonic();
    const readings = this.#readings();
    const tenants = new Map<string, Tenant>();
    for (const { tenant } of this.#entries.values()) tenants.set(tenant.key, tenant);
    const idle = new Map<Claim, number>();
    for (const tenant of tenants.values())
      for (const { claim, sinceMs } of tenant.idle()) idle.set(claim, sinceMs);
    const ownerOf = ({ id, tenant }: Entry) => {
      return { id, tenant: tenant.key, app: tenant.app, projectId: tenant.projectId };
    };
    const entries = [...this.#entries.values()];
    const held = entries.flatMap((entry): Held[] => {
      const { grant, grantedMs, phase, evictedUntilMs } = entry;
      if (!grant) return [];
      return [
        {
          ...ownerOf(entry),
          gpus: grant.gpus.map(({ uuid }) => uuid),
          memoryBytes: grant.memoryBytes,
          pids: entry.processes.all,
          grantedMs,
          idleSinceMs: idle.get(entry.claim) ?? null,
          isEnding: phase === "ending" || (evictedUntilMs !== null && nowMs < evictedUntilMs),
        },
      ];
    });
    const waiting = entries.filter(({ phase }) => phase === "waiting");
    return {
      nowMs,
      holdMs,
      sharesAcrossProjects,
      matches,
      gpus: source.current().gpus,
      readings,
      held,
      waiting: waiting.map((entry) => ({ ...ownerOf(entry), wish: entry.wish, promised: entry.promised })),
      minimums: new Map([...tenants].map(([key, tenant]) => [key, tenant.minReplicas()])),
    };
  }

  /** Decides again soon, and looks again soon if wishes still wait after that. */
  #changed(): void {
    this.#lookMs = FIRST_LOOK_MS;
    this.#decideSoon();
  }

  /** After what happens now, so that what a tenant does in between counts together. */
  #decideSoon(): void {
    if (this.#isDue || this.#closing.signal.aborted) return;
    this.#isDue = true;
    queueMicrotask(() => {
      this.#isDue = false;
      if (!this.#closing.signal.aborted) this.#decide();
    });
  }

  #decide(): void {
    this.#timer?.cancel();
    this.#timer = null;
    if (![...this.#entries.values()].some(({ phase }) => phase === "waiting")) return;
    const view = this.#view();
    const byId = new Map([...this.#entries.values()].map((entry) => [entry.id, entry]));
    const { grants, evictions, promises, lookAgainMs } = decide(view);
    for (const { id, gpus } of grants) {
      const entry = byId.get(id)!;
      entry.phase = "granted";
      entry.grant = { gpus, memoryBytes: entry.wish.memoryBytes };
      entry.grantedMs = view.nowMs;
      entry.resolve(entry.grant);
    }
    for (const { id, gpus } of promises) byId.get(id)!.promised = gpus;
    for (const { id, forId } of evictions) this.#evict(byId.get(id)!, byId.get(forId)!, view.nowMs);
    const waiting = view.waiting.filter(({ id }) => byId.get(id)?.phase === "waiting");
    if (waiting.length === 0) return;
    this.#tellExcess({ ...view, waiting });
    const waitMs = Math.min(this.#lookMs, (lookAgainMs ?? Infinity) - view.nowMs);
    this.#lookMs = Math.min(1.5 * this.#lookMs, LONGEST_LOOK_MS);
    this.#timer = this.#parts.clock.after(Math.max(1, waitMs), () => void this.#lookAgain());
  }

  #evict(entry: Entry, forEntry: Entry, nowMs: number): void {
    // What was done a moment ago may have changed what was decided on.
    const isIdle = entry.tenant.idle().some(({ claim }) => claim === entry.claim);
    if (entry.phase !== "granted" || forEntry.phase !== "waiting" || !isIdle) return this.#decideSoon();
    entry.evictedUntilMs = nowMs + EVICTED_MS;
    if (!entry.tenant.evict(entry.claim, asSeenBy(entry.tenant, forEntry.tenant))) return;
    const eviction: GpuEviction = {
      atMs: this.#parts.clock.now(),
      gpus: entry.grant?.gpus.map(({ uuid }) => uuid) ?? [],
      evicted: nameOf(entry.tenant),
      by: nameOf(forEntry.tenant),
    };
    this.#evictions = [...this.#evictions, eviction].slice(-MAX_EVICTIONS);
  }

  /** Tells of replicas above their share, if others wait for their GPU. */
  #tellExcess({ waiting, gpus, readings, matches }: BrokerView): void {
    if (!this.#parts.onExcess) return;
    const places = gpus.map((gpu) => ({ gpu }));
    for (const entry of this.#entries.values()) {
      const { grant, tenant, claim } = entry;
      if (entry.phase !== "granted" || entry.isExcessTold || !grant || grant.memoryBytes === null) continue;
      const allowed = TOLERATED * grant.memoryBytes;
      const pids = entry.processes.all;
      const over = grant.gpus.filter(
        ({ uuid }) => (usedBytesOf({ pids }, readings.get(uuid)) ?? 0) > allowed,
      );
      if (over.length === 0) continue;
      const isAwaited = waiting.some(
        (other) =>
          other.tenant !== tenant.key &&
          poolsFor(other.wish, places, matches)
            .flat()
            .some(({ gpu }) => over.some(({ uuid }) => uuid === gpu.uuid)),
      );
      if (!isAwaited) continue;
      entry.isExcessTold = true;
      this.#parts.onExcess(claim);
    }
  }

  async #lookAgain(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    await this.#look();
    this.#isLooking = false;
    this.#decideSoon();
  }
}

function nameOf({ app, projectId }: Tenant): GpuEviction["by"] {
  return { app, projectId };
}

/** The GPUs of a grant that work. */
function roomsOf(grant: GpuGrant | null, view: BrokerView): Room[] {
  const uuids = new Set(grant?.gpus.map(({ uuid }) => uuid));
  return view.gpus
    .filter(({ uuid, fault }) => uuids.has(uuid) && fault === null)
    .map((gpu) => new Room(gpu, view));
}
