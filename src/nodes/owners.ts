import { VERSION } from "../config/release.ts";
import type { Clock, Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { pause } from "../kit/pause.ts";
import { sideBySide } from "../kit/side-by-side.ts";
import { AppError } from "../model/errors.ts";
import type { AppPlace, ServiceNode } from "../model/node.ts";
import type { AppHolder, OwnedApp } from "../store/app-owners.ts";
import type { Store } from "../store/store.ts";
import type { Asker } from "./elsewhere.ts";
import type { NodeLease } from "./lease.ts";
import { Moves } from "./moves.ts";
import type { Heir } from "./moves.ts";
import { Places, textOf } from "./places.ts";
import type { NamedApp } from "./places.ts";
import { toMove, winnerOf } from "./rendezvous.ts";
import type { Roster } from "./roster.ts";

/** What serves the apps that this node has. */
export type AppHost = {
  /** Serves the app from now on; false when there is nothing to serve. */
  open(appNumber: number): Promise<boolean>;
  /** Serves it no more: calls under way end, then nothing of it is left here. */
  letGo(appNumber: number): Promise<void>;
  /** Whether it is being changed just now: such an app is not moved. */
  isChanging(appNumber: number): boolean;
  /** How many of its replicas take calls. */
  readyCount(appNumber: number): number;
};

export type OwnersParts = {
  readonly store: Pick<Store, "appOwners">;
  readonly clock: Clock;
  readonly log: Log;
  readonly lease: NodeLease;
  readonly roster: Roster;
  readonly heir: Heir;
  /** Nodes that ran on this data directory, and are dead. */
  readonly predecessors: readonly string[];
};

/** Where an app is: here, or at a node that lives. */
export type Whereabouts = { readonly kind: "here" } | { readonly kind: "there"; readonly node: ServiceNode };

const NO_FENCE = -1;
const SYNC_MS = 1_000;
/** How often a node looks for apps that nobody has, and for those that would better be another's. */
const REVIEW_MS = 5_000;
const PAGE = 1_000;
const OPENED_AT_A_TIME = 16;
/** Of these, each so many-th looks through all apps, unless nodes have come or gone. */
const SWEEP_EVERY = 12;
/** So many apps move after another before the node looks again, and so many at a time when it stops. */
const MAX_MOVES = 32;
const FAREWELLS_AT_A_TIME = 8;
const MAX_KNOWN = 50_000;
/** How long a caller waits until it is known who has an app: longer than the lease of a node that has died. */
const PATIENCE_MS = 12_000;
const LOOK_AGAIN_MS = 200;

/**
 * The apps of this node, and where those of the others are. An app is taken when it is first needed, and lives by the
 * node's lease. What the database says is looked up every second, so that whatever was missed is made good.
 */
export class Owners {
  readonly #parts: OwnersParts;
  #host: AppHost | null = null;
  /** The fence of each app that is ours. */
  readonly #fences = new Map<number, number>();
  /** Apps of other nodes, by project and name. A caller who is told that it moved has it looked up again. */
  readonly #known = new Map<string, string>();
  readonly #moves: Moves;
  readonly #places: Places;
  #timers: Timer[] = [];
  #reviewing: Promise<void> | null = null;
  #syncing: Promise<void> | null = null;
  #hasStarted = false;
  #isLeaving = false;
  /** Whether all apps were looked through since nodes came or went. */
  #isSwept = false;
  #nodeChanges = 0;
  #reviews = 0;

  constructor(parts: OwnersParts) {
    this.#parts = parts;
    this.#moves = new Moves(parts);
    this.#places = new Places(parts.store);
  }

  /** What is ours is served by that, from now on. */
  serveBy(host: AppHost): void {
    this.#host = host;
  }

  /** Begins to serve what is ours; from now on it takes what nobody has. */
  async start(): Promise<void> {
    const { clock } = this.#parts;
    this.#hasStarted = true;
    await this.#review();
    this.#timers = [
      clock.every(SYNC_MS, () => void this.sync()),
      clock.every(REVIEW_MS, () => void this.review()),
    ];
  }

  /** Moves nothing more. */
  stop(): void {
    for (const timer of this.#timers) timer.cancel();
  }

  /** By which this node may write about the app: about one that is not ours, by a fence that no app has. */
  holderOf(appNumber: number): AppHolder {
    return { owner: this.#parts.lease.id, fence: this.#fences.get(appNumber) ?? NO_FENCE };
  }

  has(appNumber: number): boolean {
    return this.#fences.has(appNumber);
  }

  /** Whether all living nodes are of this release, so that each knows what this one writes. */
  get isOfOneRelease(): boolean {
    return this.#parts.roster.isOfOneRelease(VERSION);
  }

  /** Whether it is for this node to do what one node does for all. */
  get isFirst(): boolean {
    return winnerOf(0, this.#parts.roster.takers)?.id === this.#parts.lease.id;
  }

  /** Where the app of that name is, which is taken if nobody has it; null when there is none. */
  async find(key: NamedApp, asker: Asker): Promise<Whereabouts | null> {
    const text = textOf(key);
    const known = this.#parts.roster.find(this.#known.get(text) ?? "");
    if (known && !known.isLeaving && asker !== "node") return { kind: "there", node: known };
    const { clock } = this.#parts;
    const until = clock.monotonic() + PATIENCE_MS;
    while (clock.monotonic() < until) {
      const place = await this.#places.find(key);
      if (!place) return null;
      const found = await this.#settle(place, asker === "node");
      if (found?.kind === "there") this.#know(text, found.node.id);
      if (found) return found;
      await pause(clock, LOOK_AGAIN_MS);
    }
    throw new AppError("app_not_ready", { headers: { "retry-after": "1" } });
  }

  /** The app is not where it was thought to be. */
  forget(key: NamedApp): void {
    this.#known.delete(textOf(key));
  }

  /** Takes those of the apps that nobody has and that are for us to take. */
  async lookAfter(appNumbers: readonly number[]): Promise<void> {
    const { store } = this.#parts;
    const places = await store.appOwners.list(appNumbers);
    await Promise.all(places.map((place) => this.#settle(place, false)));
  }

  /** Takes a new app, which nobody else can know; false when somebody has it. */
  async takeNew(appNumber: number): Promise<boolean> {
    if (this.#fences.has(appNumber)) return true;
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
    this.#moves.hurry();
    this.stop();
    await this.#parts.roster.look();
    await sideBySide([...this.#fences.keys()], FAREWELLS_AT_A_TIME, (appNumber) =>
      this.#safely("give an app to another node", () => this.#giveAway(appNumber)),
    );
  }

  async #giveAway(appNumber: number): Promise<void> {
    const { roster, lease, store } = this.#parts;
    const heirs = roster.takers.filter(({ id }) => id !== lease.id);
    const winner = winnerOf(appNumber, heirs);
    const fence = this.#fences.get(appNumber);
    if (fence === undefined) return;
    if (winner) await this.#handOver(appNumber, winner);
    // It is served here to the last call; whoever starts next may take it at once.
    if (this.#fences.has(appNumber))
      await store.appOwners.handOver({ appNumber, fence, from: lease.id, to: null });
  }

  /** Null when what was read of it is not true any more. `isSent`: a node has sent the caller here. */
  async #settle(place: AppPlace, isSent: boolean): Promise<Whereabouts | null> {
    const { lease, roster, predecessors } = this.#parts;
    const { appNumber, owner, fence, isAlive } = place;
    if (owner === lease.id) {
      // It has been given away since that was read.
      if (this.#isLeaving && !this.#fences.has(appNumber)) return null;
      await this.#serve([{ appNumber, fence }]);
      return { kind: "here" };
    }
    if (owner !== null && isAlive && !predecessors.includes(owner)) {
      if (!roster.find(owner)) await roster.look();
      const node = roster.find(owner);
      return node ? { kind: "there", node } : null;
    }
    const winner = winnerOf(appNumber, roster.takers);
    // Nobody is left to have it: who calls is told that this node stops.
    if (!winner && this.#isLeaving) return { kind: "here" };
    if (winner && winner.id !== lease.id && !isSent) return { kind: "there", node: winner };
    const isTaken = (await this.#take([appNumber])).length > 0;
    return isTaken ? { kind: "here" } : null;
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
    await this.#serve(taken);
    return taken;
  }

  async #serve(apps: readonly OwnedApp[]): Promise<void> {
    for (const { appNumber, fence } of apps) {
      const before = this.#fences.get(appNumber) ?? NO_FENCE;
      if (fence > before) this.#fences.set(appNumber, fence);
    }
    const host = this.#host;
    if (!host) return;
    await sideBySide(apps, OPENED_AT_A_TIME, async ({ appNumber }) => {
      // It may have gone to another node while others were opened.
      if (this.#fences.has(appNumber))
        await this.#safely("open an app", async () => void (await host.open(appNumber)));
      if (!this.#fences.has(appNumber)) await host.letGo(appNumber);
    });
  }

  async #sync(): Promise<void> {
    const { store, lease } = this.#parts;
    // What is taken meanwhile may not be in the answer.
    const before = new Map(this.#fences);
    const owned = new Map(
      (await store.appOwners.owned(lease.id)).map(({ appNumber, fence }) => [appNumber, fence]),
    );
    const given = [...owned].filter(
      ([appNumber, fence]) => (this.#fences.get(appNumber) ?? NO_FENCE) < fence,
    );
    const gone = [...before].filter(
      ([appNumber, fence]) => !owned.has(appNumber) && this.#fences.get(appNumber) === fence,
    );
    // First what others have by now: opening may take long.
    await Promise.all(gone.map(([appNumber]) => this.#loosen(appNumber)));
    await this.#serve(given.map(([appNumber, fence]) => ({ appNumber, fence })));
  }

  async #review(): Promise<void> {
    const { lease, roster } = this.#parts;
    if (this.#isLeaving || !this.#host || !this.#hasStarted) return;
    if (!this.#isSwept || this.#reviews++ % SWEEP_EVERY === 0) await this.#sweep();
    if (!lease.mayJudge) return;
    const host = this.#host;
    const isFree = (appNumber: number): boolean =>
      this.#moves.mayTry(appNumber) && !host.isChanging(appNumber);
    const movable = [...this.#fences.keys()].filter(isFree);
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

  async #handOver(appNumber: number, to: ServiceNode): Promise<void> {
    const fence = this.#fences.get(appNumber);
    if (fence === undefined) return;
    const app = { appNumber, fence };
    const end = await this.#moves.give(app, to, this.#host?.readyCount(appNumber) ?? 0);
    // It is another's already, or the heir is not there any more: the database tells which.
    if (end === "doubtful") await this.#sync();
    if (end !== "given") return;
    // Its calls go there from now on; those that have begun end here.
    await Promise.all([this.#loosen(appNumber), this.#moves.tell(to, appNumber)]);
  }

  async #loosen(appNumber: number): Promise<void> {
    if (!this.#fences.delete(appNumber)) return;
    await this.#host?.letGo(appNumber);
  }

  #know(text: string, nodeId: string): void {
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(text, nodeId);
  }

  async #safely(what: string, work: () => Promise<void>): Promise<void> {
    await work().catch((error: unknown) => this.#parts.log.error({ err: error }, `could not ${what}`));
  }
}
