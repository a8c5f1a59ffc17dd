import type { Clock, Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { forEachConcurrently } from "../kit/concurrency.ts";
import type { AppError } from "../model/errors.ts";
import type { AppPlace, ServiceNode } from "../model/node.ts";
import type { AppHolder, OwnedApp } from "../store/nodes/app-owners.ts";
import type { Store } from "../store/store.ts";
import type { NodeLease } from "./lease.ts";
import { Handovers } from "./handovers.ts";
import type { HandoverPeer } from "./handovers.ts";
import { OwnedApps } from "./owned-apps.ts";
import type { AppHost } from "./owned-apps.ts";
import { ranked, toMove, winnerOf } from "./rendezvous.ts";
import type { Peer } from "./peers.ts";
import type { Roster } from "./roster.ts";

export type OwnersParts = {
  readonly store: Pick<Store, "appOwners">;
  readonly clock: Clock;
  readonly log: Log;
  readonly lease: NodeLease;
  readonly roster: Roster;
  readonly handoverPeer: HandoverPeer;
  /** Nodes that ran on this data directory, and are dead. */
  readonly predecessors: readonly string[];
};

/** The node that serves an app: this one, or a peer. */
export type AppLocation = { readonly kind: "here" } | { readonly kind: "there"; readonly peer: Peer };

const SYNC_MS = 1_000;
/** How often a node looks for apps that nobody has, and for those that would better be another's. */
const REVIEW_MS = 5_000;
const PAGE = 1_000;
/** Of these, each so many-th looks through all apps, unless nodes have come or gone. */
const SWEEP_EVERY = 12;
/** So many apps move after another before the node looks again, and so many at a time when it stops. */
const MAX_MOVES = 32;
const FAREWELLS_AT_A_TIME = 8;
const MENDED_AT_A_TIME = 4;
/** So many other nodes are asked for an app that cannot be loaded here, and the next time the next ones. */
const ASKED_AT_A_TIME = 2;

/**
 * Which apps are this node's, and which become so. An app is taken when it is first needed, and lives by the
 * node's lease. What the database says is looked up every second, so that whatever was missed is made good.
 */
export class Owners {
  readonly #parts: OwnersParts;
  readonly #apps: OwnedApps;
  readonly #handovers: Handovers;
  #timers: Timer[] = [];
  #reviewing: Promise<void> | null = null;
  #syncing: Promise<void> | null = null;
  /** Monotonic; when the database was last asked which apps are ours, and answered. */
  #comparedAt = Number.NEGATIVE_INFINITY;
  #mending: Promise<void> | null = null;
  /** Apps that are being given away just now. */
  readonly #giving = new Map<number, Promise<boolean>>();
  #hasStarted = false;
  #isLeaving = false;
  /** Whether all apps were looked through since nodes came or went. */
  #isSwept = false;
  #nodeChanges = 0;
  #reviews = 0;

  constructor(parts: OwnersParts) {
    this.#parts = parts;
    this.#apps = new OwnedApps({ ...parts, nodeId: parts.lease.id });
    this.#handovers = new Handovers(parts);
  }

  /** What is ours is served by that, from now on. */
  serveBy(host: AppHost): void {
    this.#apps.serveBy(host);
  }

  /** Begins to serve what is ours; from now on it takes what nobody has. */
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

  /** Moves nothing more. */
  stop(): void {
    for (const timer of this.#timers) timer.cancel();
  }

  /** By which this node may write about the app: about one that is not ours, by a fence that no app has. */
  holderOf(appNumber: number): AppHolder {
    return this.#apps.holderOf(appNumber);
  }

  has(appNumber: number): boolean {
    return this.#apps.has(appNumber);
  }

  /** Whether the app is ours and the others believe that this node lives, as far as it can know without asking. */
  mayClaim(appNumber: number): boolean {
    return this.#apps.has(appNumber) && this.#parts.lease.isHeld;
  }

  /** Why an app that is ours cannot be loaded; null if nothing is known against it. */
  whyUnserved(appNumber: number): AppError | null {
    return this.#apps.whyUnserved(appNumber);
  }

  /** Whether it knows which apps are its own. After a time without its lease, others may have some of them. */
  get isSure(): boolean {
    const { lease } = this.#parts;
    return lease.isHeld && this.#comparedAt >= lease.heldSince;
  }

  /** Whether it is for this node to do what one node does for all. */
  get isFirst(): boolean {
    const { roster, lease } = this.#parts;
    // Also while all of them leave.
    return winnerOf(0, roster.takers.length > 0 ? roster.takers : roster.all)?.id === lease.id;
  }

  /**
   * Who has the app, after this node has taken it if it is to have it; null when what was read of it is not true any
   * more. `isSent`: a node has sent the caller here.
   */
  async settle(place: AppPlace, isSent: boolean): Promise<AppLocation | null> {
    const { lease, roster } = this.#parts;
    const { appNumber, owner, fence } = place;
    const found = await this.locate(place, isSent);
    if (found?.kind !== "here") return found;
    if (owner === lease.id) {
      if (this.#isLeaving && !this.#apps.has(appNumber)) {
        // It was given to this node as it left. If it has been given away since that was read, this does nothing.
        await this.#giveUp({ appNumber, fence });
        return null;
      }
      await this.#apps.serve([{ appNumber, fence }]);
      return found;
    }
    // No node is left to have it: the caller is told that this one stops.
    if (this.#isLeaving && !winnerOf(appNumber, roster.takers)) return found;
    return (await this.#take([appNumber])).length > 0 ? found : null;
  }

  /** The same without taking it: who has the app, or is to take it. */
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

  /** Takes those of the apps that nobody has and that are for us to take. */
  async lookAfter(appNumbers: readonly number[]): Promise<void> {
    const { store } = this.#parts;
    const places = await store.appOwners.list(appNumbers);
    await Promise.all(places.map((place) => this.settle(place, false)));
  }

  /** Takes a new app, which nobody else can know, unless it is ours already; false when somebody has it. */
  async takeNew(appNumber: number): Promise<boolean> {
    if (await this.#giving.get(appNumber)?.catch(() => false)) return false;
    if (this.#apps.has(appNumber)) return true;
    return (await this.#take([appNumber])).length > 0;
  }

  /** Another node has given us the app. */
  async adopt(appNumber: number): Promise<void> {
    await this.lookAfter([appNumber]);
  }

  /** Compares what the database says is ours with what is served. */
  sync(): Promise<void> {
    this.#syncing ??= this.#safely("compare the apps of this node", () => this.#sync()).finally(
      () => (this.#syncing = null),
    );
    return this.#syncing;
  }

  /** Nodes have come or gone: apps may be without one. */
  onNodesChanged(): void {
    this.#isSwept = false;
    this.#nodeChanges += 1;
    // One that has come may be able to load them.
    this.#apps.wake();
    void this.review();
  }

  /** Takes what nobody has, and gives away what is better kept by another. */
  review(): Promise<void> {
    this.#reviewing ??= this.#safely("look for apps without a node", () => this.#review()).finally(
      () => (this.#reviewing = null),
    );
    return this.#reviewing;
  }

  /** Gives every app to another node, each ready there before it goes; without another nobody has them. */
  async leave(): Promise<void> {
    this.#isLeaving = true;
    this.#handovers.hurry();
    this.stop();
    await this.#parts.roster.look();
    await forEachConcurrently(this.#apps.list(), FAREWELLS_AT_A_TIME, (app) =>
      this.#safely("give an app to another node", () => this.#giveAway(app)),
    );
    await this.#safely("leave its last apps to other nodes", async () => {
      // Given by a node that did not know yet that this one leaves.
      for (const app of await this.#parts.store.appOwners.owned(this.#parts.lease.id))
        await this.#giveUp(app);
    });
  }

  async #giveAway(app: OwnedApp): Promise<void> {
    const winner = winnerOf(app.appNumber, this.#others());
    if (winner) await this.#handOver(app.appNumber, winner);
    // It is served here to the last call; whoever starts next may take it at once.
    if (this.#apps.has(app.appNumber)) await this.#giveUp(app);
  }

  /** Nobody has the app, unless it is another's already. */
  async #giveUp(app: OwnedApp): Promise<void> {
    const { store, lease } = this.#parts;
    await store.appOwners.handOver({ ...app, from: lease.id, to: null });
  }

  /** Nodes beside this one that may be given apps. */
  #others(): ServiceNode[] {
    return this.#parts.roster.takers.filter(({ id }) => id !== this.#parts.lease.id);
  }

  /** Of apps that nobody has, those that are ours now. */
  async #take(appNumbers: readonly number[]): Promise<readonly OwnedApp[]> {
    const { store, lease, predecessors } = this.#parts;
    if (this.#isLeaving || !this.#hasStarted || appNumbers.length === 0) return [];
    const taken = await store.appOwners.take({
      appNumbers,
      owner: lease.id,
      dead: predecessors,
      mayJudge: lease.mayJudge,
    });
    await this.#apps.serve(taken);
    return taken;
  }

  async #sync(): Promise<void> {
    const { store, lease, clock } = this.#parts;
    const comparedAt = clock.monotonic();
    // What is taken meanwhile may not be in the answer.
    const before = this.#apps.list();
    const owned = await store.appOwners.owned(lease.id);
    const numbers = new Set(owned.map(({ appNumber }) => appNumber));
    const given = owned.filter(({ appNumber, fence }) => (this.#apps.fenceOf(appNumber) ?? -1) < fence);
    const gone = before.filter(
      ({ appNumber, fence }) => !numbers.has(appNumber) && this.#apps.fenceOf(appNumber) === fence,
    );
    // First what others have by now. Neither is waited for: opening may take minutes, in which more may be lost.
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
    const movable = this.#apps
      .list()
      .map(({ appNumber }) => appNumber)
      .filter((appNumber) => this.#handovers.mayTry(appNumber) && this.#apps.isFree(appNumber));
    for (const { appNumber, to } of toMove(movable, lease.id, roster.takers, MAX_MOVES)) {
      if (this.#isLeaving) return;
      await this.#handOver(appNumber, to);
    }
  }

  /** Takes of the apps that nobody has those that are for us. */
  async #sweep(): Promise<void> {
    const { store, lease, roster, predecessors } = this.#parts;
    // While it may not judge, the dead keep what they had. Nodes that come or go meanwhile have it done again.
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

  /** Tries again to load what this node could not; what it cannot goes to a node that can. */
  #mendSoon(): Promise<void> {
    this.#mending ??= forEachConcurrently(this.#apps.due(), MENDED_AT_A_TIME, (appNumber) =>
      this.#safely("have an app served", () => this.#mend(appNumber)),
    ).finally(() => (this.#mending = null));
    return this.#mending;
  }

  async #mend(appNumber: number): Promise<void> {
    const failures = await this.#apps.retry(appNumber);
    if (failures === 0 || this.#isLeaving || !this.#apps.isFree(appNumber)) return;
    const others = ranked(appNumber, this.#others());
    // It failed before this try, and now again.
    const first = others.length > 0 ? ((failures - 2) * ASKED_AT_A_TIME) % others.length : 0;
    for (const node of others.slice(first, first + ASKED_AT_A_TIME)) {
      await this.#handOver(appNumber, node);
      if (!this.#apps.has(appNumber)) return;
    }
  }

  async #handOver(appNumber: number, to: ServiceNode): Promise<void> {
    if (!(await this.#handovers.prepare(appNumber, to, this.#apps.readyCount(appNumber)))) return;
    const fence = this.#apps.fenceOf(appNumber);
    // A deploy may have begun while the other got ready.
    if (fence === undefined || (!this.#isLeaving && !this.#apps.isFree(appNumber))) return;
    const giving = this.#handovers.give({ appNumber, fence }, to);
    this.#giving.set(appNumber, giving);
    const isGiven = await giving.finally(() => this.#giving.delete(appNumber));
    // It is another's already, or the new owner is gone: the database knows which.
    if (!isGiven) return await this.#sync();
    // Its calls go there from now on; those that have begun end here.
    await Promise.all([this.#apps.loosen(appNumber), this.#handovers.tell(to, appNumber)]);
  }

  async #safely(what: string, work: () => Promise<void>): Promise<void> {
    await work().catch((error: unknown) => this.#parts.log.error({ err: error }, `could not ${what}`));
  }
}
