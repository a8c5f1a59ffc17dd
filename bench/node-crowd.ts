import { setImmediate as settled } from "node:timers/promises";
import type { Clock, Timer } from "../src/kit/clock.ts";
import { createLog } from "../src/kit/log.ts";
import type { NodeDetails } from "../src/model/node.ts";
import { NodeLease } from "../src/nodes/lease.ts";
import { Owners } from "../src/nodes/owners.ts";
import { winnerOf } from "../src/nodes/rendezvous.ts";
import { Roster } from "../src/nodes/roster.ts";
import { HandClock } from "../test/support/clocks.ts";
import { NodeWorld } from "./node-world.ts";

const STEP_MS = 50;
/** Longer than it takes until a dead node is noticed, and the apps that nobody has are looked through. */
const CALM_MS = 12_000;
const log = createLog("silent");

/** A node as it is, its apps aside: lease, roster and owners are the service's own. */
type CrowdNode = {
  readonly id: string;
  readonly clock: OwnClock;
  readonly details: NodeDetails;
  readonly lease: NodeLease;
  readonly roster: Roster;
  readonly owners: Owners;
};

/** Many nodes in one process, on a database in memory and a clock that is moved. Apps are only owned, never run. */
export class NodeCrowd {
  readonly clock = new HandClock();
  readonly world: NodeWorld;
  readonly #nodes = new Map<string, CrowdNode>();
  #started = 0;

  constructor(appCount: number) {
    this.world = new NodeWorld(appCount, () => this.clock.now());
  }

  get living(): readonly CrowdNode[] {
    return [...this.#nodes.values()];
  }

  /** Starts nodes on data directories of those names; all of them know each other before the first takes an app. */
  async join(nodes: readonly { readonly home: string; readonly cpus: number }[]): Promise<void> {
    const made = nodes.map(({ home, cpus }) => this.#make(home, cpus));
    for (const { lease } of made) {
      await lease.begin();
      lease.start();
    }
    for (const { lease, roster } of made) {
      await roster.start();
      await lease.announce();
    }
    const host = {
      open: () => Promise.resolve(true),
      letGo: () => Promise.resolve(),
      isChanging: () => false,
      readyCount: () => 0,
      gpuWish: () => null,
      onTaken: () => {},
    };
    for (const node of made) {
      this.#nodes.set(node.id, node);
      node.owners.serveBy(host);
      await node.roster.look();
      await node.owners.start();
    }
  }

  /** Ends a node as `kill -9` does: nobody is told. */
  kill(id: string): void {
    this.#gone(id).clock.stop();
  }

  /** Ends a node in good order. */
  async leave(id: string): Promise<void> {
    const node = this.#gone(id);
    await node.lease.startLeaving();
    await node.owners.leave();
    node.roster.stop();
    await node.lease.leave();
    node.clock.stop();
  }

  /** Lets time pass. */
  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += STEP_MS) {
      this.clock.advance(STEP_MS);
      await settled();
    }
  }

  /** Lets time pass until no app has moved for a while; resolves with how long it took until the last one had. */
  async calm(): Promise<number> {
    const { world, clock } = this;
    const beganAt = clock.now();
    let [lastAt, moved] = [beganAt, world.moved];
    while (clock.now() - lastAt < CALM_MS) {
      await this.pass(STEP_MS);
      if (world.moved !== moved) [lastAt, moved] = [clock.now(), world.moved];
    }
    return lastAt - beganAt;
  }

  /** Apps that are not where all nodes together would have them. */
  misplaced(): number {
    const nodes = this.living;
    return [...this.world.owners].filter(([appNumber, owner]) => winnerOf(appNumber, nodes)?.id !== owner)
      .length;
  }

  /** How many apps each node has for each of its processors, against the mean of all. */
  shares(): number[] {
    const cpus = this.living.reduce((sum, { details }) => sum + details.capacity.cpus, 0);
    const mean = this.world.owners.size / cpus;
    const counts = Map.groupBy(this.world.owners.values(), (owner) => owner);
    return this.living.map(({ id, details }) => (counts.get(id)?.length ?? 0) / details.capacity.cpus / mean);
  }

  /** What part of all apps a node should have by its processors. */
  idealShare(id: string): number {
    const cpus = this.living.reduce((sum, { details }) => sum + details.capacity.cpus, 0);
    return (this.#nodes.get(id)?.details.capacity.cpus ?? 0) / cpus;
  }

  #make(home: string, cpus: number): CrowdNode {
    const id = `${home}/${(this.#started += 1)}`;
    const capacity = { cpus, memoryBytes: cpus * 4e9 };
    const said = {
      name: home,
      home,
      labels: {},
      capacity,
      release: "0.0.0",
      runs: 0,
      startedAt: this.clock.now(),
      managementAddresses: [],
    };
    const clock = new OwnClock(this.clock);
    const store = this.world.store();
    const lease = new NodeLease({
      store,
      clock,
      log,
      id,
      self: { url: "https://node", details: () => said },
    });
    const roster: Roster = new Roster({
      store,
      clock,
      log,
      lease,
      onDeaths: () => this.world.recover(),
      onChange: () => owners.onNodesChanged(),
      onGone: () => {},
    });
    const handoverPeer = {
      prepare: () => Promise.resolve(),
      adopt: async (to: { readonly id: string }, appNumber: number) =>
        await this.#nodes.get(to.id)?.owners.lookAfter([appNumber]),
    };
    const owners: Owners = new Owners({ store, clock, log, lease, roster, handoverPeer, predecessors: [] });
    return { id, clock, details: said, lease, roster, owners };
  }

  #gone(id: string): CrowdNode {
    const node = this.#nodes.get(id);
    if (!node) throw new Error(`there is no node ${id}`);
    this.#nodes.delete(id);
    return node;
  }
}

/** The clock of one process: when that has ended, nothing is due there any more. */
class OwnClock implements Clock {
  readonly #clock: Clock;
  readonly #timers = new Set<Timer>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  monotonic(): number {
    return this.#clock.monotonic();
  }

  after(ms: number, act: () => void): Timer {
    const timer = this.#clock.after(ms, () => {
      this.#timers.delete(timer);
      act();
    });
    this.#timers.add(timer);
    return timer;
  }

  every(ms: number, act: () => void): Timer {
    const timer = this.#clock.every(ms, act);
    this.#timers.add(timer);
    return timer;
  }

  stop(): void {
    for (const timer of this.#timers) timer.cancel();
  }
}
