import type { Clock } from "../kit/clock.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Log } from "../kit/log.ts";
import { pause } from "../kit/pause.ts";
import type { NodeDetails, ServiceNode } from "../model/node.ts";
import type { Store } from "../store/store.ts";
import { Changes } from "./changes.ts";
import { NodeLease } from "./lease.ts";
import type { Heir } from "./moves.ts";
import type { AppHost } from "./owned-apps.ts";
import { Owners } from "./owners.ts";
import type { Ownership } from "./ownership.ts";
import { Roster } from "./roster.ts";

export type OwnNodeParts = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly ownership: Ownership;
  /** Where the others reach this node. */
  readonly url: string;
  readonly details: () => Omit<NodeDetails, "runs">;
  readonly heir: Heir;
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
