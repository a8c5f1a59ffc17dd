import { setImmediate as settled } from "node:timers/promises";
import { NodeWorld, type WorldStore } from "../../../bench/node-world.ts";
import { createLog } from "../../../src/kit/log.ts";
import { AppError } from "../../../src/model/errors.ts";
import type { GpuKind, GpuWish } from "../../../src/model/gpu.ts";
import type { ServiceNode } from "../../../src/model/node.ts";
import { NodeLease } from "../../../src/nodes/lease.ts";
import type { AppHost } from "../../../src/nodes/owned-apps.ts";
import { type HandoverPeer, Owners } from "../../../src/nodes/owners.ts";
import { winnerOf } from "../../../src/nodes/rendezvous.ts";
import { Roster } from "../../../src/nodes/roster.ts";
import { HandClock } from "../clocks.ts";

const log = createLog("silent");
/** Time passes in steps of so much. */
export const STEP_MS = 100;
/** Why an app cannot be loaded. */
export const MISSING = "The app cannot start: its files are gone.";

/** What serves the apps of one node of a test: it says which it has, and cannot load some. */
export class LoadingHost implements AppHost {
  readonly served = new Set<number>();
  readonly opened: number[] = [];
  readonly unloadable = new Set<number>();
  readonly changing = new Set<number>();
  taken = 0;
  /** What opening waits for. */
  gate: Promise<void> = Promise.resolve();

  async open(appNumber: number): Promise<boolean> {
    this.opened.push(appNumber);
    await this.gate;
    if (this.unloadable.has(appNumber)) throw new AppError("app_not_ready", { message: MISSING });
    this.served.add(appNumber);
    return true;
  }

  async letGo(appNumber: number): Promise<void> {
    this.served.delete(appNumber);
  }

  isChanging(appNumber: number): boolean {
    return this.changing.has(appNumber);
  }

  /** Those of its machine. */
  gpus: readonly GpuKind[] = [];
  /** What apps ask for, wherever they are served. */
  wishes: ReadonlyMap<number, GpuWish> = new Map();

  gpuWish(appNumber: number): GpuWish | null {
    return this.served.has(appNumber) ? (this.wishes.get(appNumber) ?? null) : null;
  }

  readyCount(): number {
    return 0;
  }

  onTaken(): void {
    this.taken += 1;
  }
}

/** A node as it is, its apps aside. */
export type OwnersNode = {
  readonly id: string;
  readonly host: LoadingHost;
  readonly lease: NodeLease;
  readonly roster: Roster;
  readonly owners: Owners;
};

/** Nodes on one database in memory, by one clock. */
export class OwnersSite {
  readonly clock = new HandClock();
  readonly world: NodeWorld;
  readonly nodes: OwnersNode[] = [];
  /** A node is asked to get ready for an app. */
  onPrepare: (appNumber: number) => void = () => {};
  /** Stands between a node and the database. */
  around: (store: WorldStore) => WorldStore = (store) => store;

  constructor(appCount: number) {
    this.world = new NodeWorld(appCount, () => this.clock.now());
  }

  /** Starts a node; its apps are there, and it judges others. */
  async join(id: string, host = new LoadingHost()): Promise<OwnersNode> {
    const node = this.#make(id, host);
    this.nodes.push(node);
    await node.lease.begin();
    node.lease.start();
    await node.roster.start();
    await node.lease.announce();
    node.owners.serveBy(host);
    await node.roster.look();
    await node.owners.start();
    return node;
  }

  /** Lets time pass. */
  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += STEP_MS) {
      this.clock.advance(STEP_MS);
      await settled();
    }
  }

  /** The first app that by all nodes together belongs to that one. */
  appOf({ id }: OwnersNode): number {
    const { all } = this.nodes[0]!.roster;
    return [...this.world.owners.keys()].find((appNumber) => winnerOf(appNumber, all)?.id === id)!;
  }

  #make(id: string, host: LoadingHost): OwnersNode {
    const { clock } = this;
    const store = this.around(this.world.store());
    const details = {
      name: id,
      home: id,
      labels: {},
      capacity: { cpus: 4, memoryBytes: 8e9 },
      release: "0.0.0",
      runs: 0,
      startedAt: 0,
      managementAddresses: [],
    };
    const lease = new NodeLease({
      store,
      clock,
      log,
      id,
      self: { url: "https://node", details: () => ({ ...details, gpus: host.gpus }) },
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
    const at = (node: ServiceNode): OwnersNode => this.nodes.find((other) => other.id === node.id)!;
    const handoverPeer: HandoverPeer = {
      prepare: async (to, appNumber) => {
        this.onPrepare(appNumber);
        if (at(to).host.unloadable.has(appNumber)) throw new Error(MISSING);
      },
      adopt: async (to, appNumber) => await at(to).owners.lookAfter([appNumber]),
    };
    const owners: Owners = new Owners({ store, clock, log, lease, roster, handoverPeer, predecessors: [] });
    return { id, host, lease, roster, owners };
  }
}
