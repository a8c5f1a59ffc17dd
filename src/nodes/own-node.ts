import { type Clock, pause } from "../kit/clock.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Log } from "../kit/log.ts";
import type { NodeDetails, ServiceNode } from "../model/node.ts";
import type { Store } from "../store/store.ts";
import { Changes } from "./changes.ts";
import { NodeLease } from "./lease.ts";
import type { HandoverPeer } from "./handovers.ts";
import type { AppHost } from "./owned-apps.ts";
import { Owners } from "./owners.ts";
import type { Ownership } from "./ownership.ts";
import { Roster } from "./roster.ts";
import { availableParallelism, hostname, networkInterfaces } from "node:os";
import { VERSION } from "../config/package-files.ts";
import type { Settings } from "../config/setting-keys.ts";
import { directoryId } from "../host/data-folders.ts";
import { ownMemoryBytes } from "../kit/memory.ts";

type OwnNodeParts = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly ownership: Ownership;
  /** Where the others reach this node. */
  readonly url: string;
  readonly details: () => Omit<NodeDetails, "runs">;
  readonly handoverPeer: HandoverPeer;
  /** Another node has left, or its lease has passed. */
  readonly onGone: (node: ServiceNode) => void;
};

/** What this node has is compared with the database at most so often for changes of apps. */
const APP_CHANGES_MS = 200;

/** What a node does for its installation. */
export type NodeWork = AppHost & {
  /** Takes over the runs of nodes that have died. */
  judge(): void;
  /** How many runs are executed here. */
  runs(): number;
};

/** This service among those of its installation. */
export class OwnNode {
  readonly lease: NodeLease;
  readonly roster: Roster;
  readonly owners: Owners;
  /** What others have changed; told from `serve` on. */
  readonly changes: Changes;
  #work: NodeWork | null = null;

  private constructor({ ownership, url, details, ...parts }: OwnNodeParts, changes: Changes) {
    this.changes = changes;
    this.lease = new NodeLease({
      ...parts,
      id: ownership.owner,
      self: { url, details: () => ({ ...details(), runs: this.#work?.runs() ?? 0 }) },
    });
    this.roster = new Roster({
      ...parts,
      lease: this.lease,
      onDeaths: () => this.#work?.judge(),
      onChange: () => this.owners.onNodesChanged(),
    });
    const { predecessors } = ownership;
    this.owners = new Owners({ ...parts, lease: this.lease, roster: this.roster, predecessors });
  }

  /** Joins the installation: its lease stands, but the others do not know it yet. */
  static async join(parts: OwnNodeParts, life: Lifecycle): Promise<OwnNode> {
    const changes = await life.start(
      "changes by other nodes",
      () => Changes.open(parts),
      (opened) => opened.stop(),
    );
    const node = new OwnNode(parts, changes);
    changes.on("app", async () => {
      await node.owners.sync();
      // Others may change many: what comes meanwhile is looked up together.
      await pause(parts.clock, APP_CHANGES_MS);
    });
    changes.on("node", () => node.roster.look());
    changes.onReset(() => node.roster.look());
    await life.start(
      "lease of this node",
      async () => {
        await node.lease.begin();
        node.lease.start();
      },
      () => node.lease.leave(),
    );
    await life.start(
      "other nodes",
      () => node.roster.start(),
      () => node.roster.stop(),
    );
    return node;
  }

  /** Begins with its share of the work; `meet` throws if another node is out of reach. */
  async serve(work: NodeWork, meet: () => Promise<void>): Promise<void> {
    this.#work = work;
    this.owners.serveBy(work);
    this.changes.start();
    await this.lease.announce();
    await this.roster.look();
    await meet();
    await this.owners.start();
  }

  /** Gives its apps to the others, who know that it leaves. */
  async leave(): Promise<void> {
    await this.lease.startLeaving();
    await this.owners.leave();
  }
}

/** What is known only when it is asked for. */
type Later = {
  /** Where agents of seats elsewhere reach it. */
  readonly reached: Pick<NodeDetails, "seatAddress">;
  readonly managementPort: () => number;
};

/** A machine with more is a router, or a host of containers. */
const MAX_ADDRESSES = 64;

/** What this service says of itself to the others, by its settings and its machine. */
export function ownDetails(
  { dataDir, nodeName }: Pick<Settings, "dataDir" | "nodeName">,
  startedAt: number,
  { reached, managementPort }: Later,
): () => Omit<NodeDetails, "runs"> {
  const lasting = {
    name: nodeName ?? hostname(),
    home: directoryId(dataDir),
    capacity: { cpus: availableParallelism(), memoryBytes: ownMemoryBytes() },
    release: VERSION,
    startedAt,
    ...reached,
  };
  return () => ({ ...lasting, managementAddresses: addressesAt(managementPort()) });
}

/** That port at every address of this machine; at loopback addresses only if it has no others. */
function addressesAt(port: number): string[] {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  // Those of one link need an interface, which is not the same elsewhere.
  const usable = all.filter(({ scopeid = 0 }) => scopeid === 0);
  const outer = usable.filter(({ internal }) => !internal);
  return (outer.length > 0 ? outer : usable)
    .slice(0, MAX_ADDRESSES)
    .map(({ address, family }) => `${family === "IPv6" ? `[${address}]` : address}:${port}`);
}
