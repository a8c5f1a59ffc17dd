import type { Clock, Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { forEachConcurrently, shared } from "../kit/concurrency.ts";
import type { AppError } from "../model/errors.ts";
import type { AppPlace, ServiceNode } from "../model/node.ts";
import type { AppHolder, OwnedApp } from "../store/nodes/app-owners.ts";
import type { Store } from "../store/store.ts";
import type { NodeLease } from "./lease.ts";
import { type AppHost, OwnedApps } from "./owned-apps.ts";
import { eligible, ranked, toMove, winnerOf } from "./rendezvous.ts";
import type { Peer } from "./peers.ts";
import type { Roster } from "./roster.ts";

/** The messages to the next owner of an app. */
export type HandoverPeer = {
  /** Starts that many replicas there; rejects if it cannot. */
  prepare(node: ServiceNode, appNumber: number, replicas: number): Promise<void>;
  /** Tells it that it owns the app now. */
  adopt(node: ServiceNode, appNumber: number): Promise<void>;
};

export type OwnersParts = {
  readonly store: Pick<Store, "appOwners">;
  readonly clock: Clock;
  readonly log: Log;
  readonly lease: NodeLease;
  readonly roster: Roster;
  readonly handoverPeer: HandoverPeer;
  /** Dead nodes that ran on this data directory. */
  readonly predecessors: readonly string[];
};

/** The node that serves an app: this one, or a peer. */
export type AppLocation = { readonly kind: "here" } | { readonly kind: "there"; readonly peer: Peer };

const SYNC_MS = 1_000;
/** How long an app stays after its next owner could not get ready. */
const UNMOVED_MS = 60_000;
/** How often a node looks for apps without an owner, and for its own that belong on another node. */
const REVIEW_MS = 5_000;
const PAGE = 1_000;
/** Every n-th review sweeps all apps, unless nodes have come or gone. */
const SWEEP_EVERY = 12;
/** Apps moved in one review; at a time when the node stops. */
const MAX_MOVES = 32;
const FAREWELLS_AT_A_TIME = 8;
const MENDED_AT_A_TIME = 4;
/** Other nodes that are asked to take an app that cannot be loaded here; then the next ones. */
const ASKED_AT_A_TIME = 2;

/**
 * Which apps this node owns. It takes an app when it is first needed, and owns it for as long as its lease lives. It
 * compares itself with the database every second, to repair whatever was missed.
 */
export class Owners {
  readonly #parts: OwnersParts;
  readonly #apps: OwnedApps;
  /** Apps that could not be moved, and when to retry; monotonic. */
  readonly #unmoved = new Map<number, number>();
  /** Nodes that failed to get an app ready while this one stops; they are not asked again. */
  readonly #unready = new Set<string>();
  #timers: Timer[] = [];
  /** When the owned apps were last compared with the database; monotonic. */
  #comparedAt = Number.NEGATIVE_INFINITY;
  readonly #giving = new Map<number, Promise<boolean>>();
  /** Apps that callers wait for to be on a node with their GPUs. */
  readonly #sending = new Map<number, Promise<void>>();
  #hasStarted = false;
  #isLeaving = false;
  /** Whether all apps were swept since nodes came or went. */
  #isSwept = false;
  #nodeChanges = 0;
  #reviews = 0;

  constructor(parts: OwnersParts) {
    this.#parts = parts;
    this.#apps = new OwnedApps({ ...parts, nodeId: parts.lease.id });
  }

  serveBy(host: AppHost): void {
    this.#apps.serveBy(host);
  }

  /** Starts to serve owned apps and to take apps without an owner. */
  async start(): Promise<void> {
    const { clock } = this.#parts;
    this.#hasStarted = true;
    await this.#sync();
    await this.#review();
    this.#timers = [
      clock.every(SYNC_MS, () => {
        void this.sync();
        void this.#mendSoon();
      }),
      clock.every(REVIEW_MS, () => void this.review()),
    ];
  }

  /** Stops moving apps. */
  stop(): void {
    for (const timer of this.#timers) timer.cancel();
  }

  /** The fence for writes about an app; one that never matches if this node does not own the app. */
  holderOf(appNumber: number): AppHolder {
    return this.#apps.holderOf(appNumber);
  }

  has(appNumber: number): boolean {
    return this.#apps.fences.has(appNumber);
  }

  /** Whether this node owns the app and holds its lease, as far as it knows without asking. */
  mayClaim(appNumber: number): boolean {
    return this.has(appNumber) && this.#parts.lease.isHeld;
  }

  /** Why an owned app cannot be loaded; null if unknown. */
  whyUnserved(appNumber: number): AppError | null {
    return this.#apps.whyUnserved(appNumber);
  }

  /** Whether its list of owned apps is current. After a gap in its lease, others may have taken some. */
  get isSure(): boolean {
    const { lease } = this.#parts;
    return lease.isHeld && this.#comparedAt >= lease.heldSince;
  }

  /** Whether this node does the work that one node does for all. */
  get isFirst(): boolean {
    const { roster, lease } = this.#parts;
    // Also if all of them are leaving.
    return winnerOf(0, roster.takers.length > 0 ? roster.takers : roster.all)?.id === lease.id;
  }

  /**
   * The app's owner, after this node has taken it if it should; null if `place` is out of date. `isSent`: another node
   * forwarded the request here.
   */
  async settle(place: AppPlace, isSent: boolean): Promise<AppLocation | null> {
    const { lease, roster } = this.#parts;
    const { appNumber, owner, fence } = place;
    const found = await this.locate(place, isSent);
    if (found?.kind !== "here") return found;
    if (owner === lease.id) {
      if (this.#isLeaving && !this.#apps.fences.has(appNumber)) {
        // It was given to this node as it left. If it has been given away since that was read, this does nothing.
        await this.#giveUp({ appNumber, fence });
        return null;
      }
      await this.#apps.serve([{ appNumber, fence }]);
      return (await this.#goesToGpus(appNumber)) ? null : found;
    }
    // No node is left; the caller learns that this one is stopping.
    if (this.#isLeaving && !winnerOf(appNumber, roster.takers)) return found;
    const isTaken = (await this.#take([appNumber])).length > 0;
    return isTaken && !(await this.#goesToGpus(appNumber)) ? found : null;
  }

  /** The app's owner, or the node that should take it. Changes nothing. */
  async locate({ appNumber, owner, isAlive }: AppPlace, isSent: boolean): Promise<AppLocation | null> {
    const { lease, roster, predecessors } = this.#parts;
    if (owner === lease.id) return { kind: "here" };
    if (owner !== null && isAlive && !predecessors.includes(owner)) {
      if (!roster.find(owner)) await roster.look();
      const node = roster.find(owner);
      return node ? { kind: "there", peer: node } : null;
    }
    const winner = winnerOf(appNumber, roster.takers);
    const isOurs = isSent || !winner || winner.id === lease.id;
    return isOurs ? { kind: "here" } : { kind: "there", peer: winner };
  }

  /** Takes those of the apps that have no owner and belong here. */
  async lookAfter(appNumbers: readonly number[]): Promise<void> {
    const places = await this.#parts.store.appOwners.list(appNumbers);
    await Promise.all(places.map((place) => this.settle(place, false)));
  }

  /** Takes a new app; false if another node owns it. */
  async takeNew(appNumber: number): Promise<boolean> {
    if (await this.#giving.get(appNumber)?.catch(() => false)) return false;
    if (this.#apps.fences.has(appNumber)) return true;
    return (await this.#take([appNumber])).length > 0;
  }

  /** Compares the owned apps with the database. */
  readonly sync = shared(() => this.#safely("compare the apps of this node", () => this.#sync()));

  /** Nodes have come or gone, so apps may lack an owner. */
  onNodesChanged(): void {
    this.#isSwept = false;
    this.#nodeChanges += 1;
    // A new node may be able to load them.
    this.#apps.wake();
    void this.review();
  }

  /** Takes apps without an owner, and hands over apps that belong on another node. */
  readonly review = shared(() => this.#safely("look for apps without a node", () => this.#review()));

  /** Hands every app over, each ready on the other node first; without other nodes, apps stay without an owner. */
  async leave(): Promise<void> {
    this.#isLeaving = true;
    this.stop();
    await this.#parts.roster.look();
    await forEachConcurrently(this.#apps.list(), FAREWELLS_AT_A_TIME, (app) =>
      this.#safely("give an app to another node", async () => {
        const winner = winnerOf(app.appNumber, this.#othersFor(app.appNumber));
        if (winner) await this.#handOver(app.appNumber, winner);
        // Its calls end here; the next node to start may take it at once.
        if (this.has(app.appNumber)) await this.#giveUp(app);
      }),
    );
    await this.#safely("leave its last apps to other nodes", async () => {
      // Given by a node that did not know yet that this one leaves.
      for (const app of await this.#parts.store.appOwners.owned(this.#parts.lease.id))
        await this.#giveUp(app);
    });
  }

  /** Releases the app, unless another node owns it by now. */
  async #giveUp(app: OwnedApp): Promise<void> {
    const { store, lease } = this.#parts;
    await store.appOwners.handOver({ ...app, from: lease.id, to: null });
  }

  /** The other nodes that may own the app. */
  #othersFor(appNumber: number): readonly ServiceNode[] {
    const { roster, lease } = this.#parts;
    const others = roster.takers.filter(({ id }) => id !== lease.id);
    return eligible(this.#apps.gpuWish(appNumber), others);
  }

  /** Hands over an app that only other nodes have the GPUs for. True if callers should look where it is by now. */
  async #goesToGpus(appNumber: number): Promise<boolean> {
    const { roster, lease } = this.#parts;
    if (this.#isLeaving || this.#unmoved.has(appNumber)) return false;
    const may = eligible(this.#apps.gpuWish(appNumber), roster.takers);
    if (may.length === roster.takers.length || may.some(({ id }) => id === lease.id)) return false;
    // It goes when the deploy that changes it has ended.
    if (!this.#apps.isFree(appNumber)) return true;
    const sending = this.#sending.get(appNumber) ?? this.#handOver(appNumber, winnerOf(appNumber, may)!);
    this.#sending.set(appNumber, sending);
    await sending.finally(() => this.#sending.delete(appNumber));
    return !this.has(appNumber);
  }

  /** Takes apps without an owner; returns those it got. */
  async #take(appNumbers: readonly number[]): Promise<readonly OwnedApp[]> {
    const { store, lease, predecessors } = this.#parts;
    if (this.#isLeaving || !this.#hasStarted || appNumbers.length === 0) return [];
    const { id: owner, mayJudge, reckonedNow } = lease;
    const dead = predecessors;
    const taken = await store.appOwners.take({ appNumbers, owner, dead, mayJudge, reckonedNow });
    await this.#apps.serve(taken);
    return taken;
  }

  async #sync(): Promise<void> {
    const { store, lease, clock } = this.#parts;
    const comparedAt = clock.monotonic();
    // Apps taken meanwhile may be missing in the answer.
    const before = this.#apps.list();
    const owned = await store.appOwners.owned(lease.id);
    const numbers = new Set(owned.map(({ appNumber }) => appNumber));
    const { fences } = this.#apps;
    const given = owned.filter(({ appNumber, fence }) => (fences.get(appNumber) ?? -1) < fence);
    const gone = before.filter(
      ({ appNumber, fence }) => !numbers.has(appNumber) && fences.get(appNumber) === fence,
    );
    // Lost apps first. Neither is awaited: opening may take minutes, in which more may be lost.
    for (const { appNumber } of gone)
      void this.#safely("let go of an app", () => this.#apps.loosen(appNumber));
    this.#comparedAt = comparedAt;
    void this.#safely("serve apps that have come", () => this.#apps.serve(given));
  }

  async #review(): Promise<void> {
    const { lease, roster } = this.#parts;
    if (this.#isLeaving || !this.#apps.isServing || !this.#hasStarted) return;
    if (!this.#isSwept || this.#reviews++ % SWEEP_EVERY === 0) await this.#sweep();
    if (!lease.mayJudge) return;
    const now = this.#parts.clock.monotonic();
    for (const [appNumber, until] of this.#unmoved) if (until <= now) this.#unmoved.delete(appNumber);
    const movable = [...this.#apps.fences.keys()].filter(
      (appNumber) => !this.#unmoved.has(appNumber) && this.#apps.isFree(appNumber),
    );
    const nodesFor = (appNumber: number) => eligible(this.#apps.gpuWish(appNumber), roster.takers);
    for (const { appNumber, to } of toMove(movable, lease.id, nodesFor, MAX_MOVES)) {
      if (this.#isLeaving) return;
      await this.#handOver(appNumber, to);
    }
  }

  /** Takes all apps without an owner that belong here. */
  async #sweep(): Promise<void> {
    const { store, lease, roster, predecessors } = this.#parts;
    // Without `mayJudge`, dead nodes keep their apps. Node changes during the sweep repeat it.
    const { mayJudge } = lease;
    const changes = this.#nodeChanges;
    for (let after = 0; ;) {
      const page = await store.appOwners.ownerless({ after, limit: PAGE, dead: predecessors });
      await this.#take(page.filter((appNumber) => winnerOf(appNumber, roster.takers)?.id === lease.id));
      if (page.length < PAGE) break;
      after = page.at(-1) ?? after;
    }
    this.#isSwept = mayJudge && changes === this.#nodeChanges;
  }

  /** Retries apps that could not be loaded; on failure hands them to a node that can load them. */
  readonly #mendSoon = shared(() =>
    forEachConcurrently(this.#apps.due(), MENDED_AT_A_TIME, (appNumber) =>
      this.#safely("have an app served", () => this.#mend(appNumber)),
    ),
  );

  async #mend(appNumber: number): Promise<void> {
    const failures = await this.#apps.retry(appNumber);
    if (failures === 0 || this.#isLeaving || !this.#apps.isFree(appNumber)) return;
    const others = ranked(appNumber, this.#othersFor(appNumber));
    // This is at least the second failure.
    const first = others.length > 0 ? ((failures - 2) * ASKED_AT_A_TIME) % others.length : 0;
    for (const node of others.slice(first, first + ASKED_AT_A_TIME)) {
      await this.#handOver(appNumber, node);
      if (!this.#apps.fences.has(appNumber)) return;
    }
  }

  /** Gets the other node ready for the app; false if it cannot. */
  async #prepare(appNumber: number, to: ServiceNode): Promise<boolean> {
    const { handoverPeer, log, clock } = this.#parts;
    if (this.#unready.has(to.id)) return false;
    try {
      await handoverPeer.prepare(to, appNumber, this.#apps.readyCount(appNumber));
      return true;
    } catch (error) {
      log.warn({ err: error, appNumber, node: to.details.name }, "another node cannot take over an app yet");
      if (this.#isLeaving) this.#unready.add(to.id);
      else this.#unmoved.set(appNumber, clock.monotonic() + UNMOVED_MS);
      return false;
    }
  }

  async #handOver(appNumber: number, to: ServiceNode): Promise<void> {
    const { store, lease, handoverPeer } = this.#parts;
    // If this node is stopping, apps move even if the next owner is not ready.
    if (!(await this.#prepare(appNumber, to)) && !this.#isLeaving) return;
    const fence = this.#apps.fences.get(appNumber);
    // A deploy may have begun during the preparation.
    if (fence === undefined || (!this.#isLeaving && !this.#apps.isFree(appNumber))) return;
    const given = store.appOwners.handOver({ appNumber, fence, from: lease.id, to: to.id });
    const giving = given.then((newFence) => newFence !== null);
    this.#giving.set(appNumber, giving);
    const isGiven = await giving.finally(() => this.#giving.delete(appNumber));
    // Another node owns it already, or the new owner is gone; the database knows which.
    if (!isGiven) return await this.#sync();
    // New calls go there; calls in progress end here. Without the message it would notice within a second.
    const telling = handoverPeer.adopt(to, appNumber).catch(() => undefined);
    await Promise.all([this.#apps.loosen(appNumber), telling]);
  }

  async #safely(what: string, work: () => Promise<void>): Promise<void> {
    await work().catch((error: unknown) => this.#parts.log.error({ err: error }, `could not ${what}`));
  }
}
