import type { Clock } from "../kit/clock.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Log } from "../kit/log.ts";
import type { Store } from "../store/store.ts";
import { NodeLease } from "./lease.ts";
import { ownDetails } from "./own-details.ts";
import { Owners } from "./owners.ts";
import type { Heir } from "./owners.ts";
import type { Ownership } from "./ownership.ts";
import { Roster } from "./roster.ts";

export type NodeParts = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly dataDir: string;
  readonly ownership: Ownership;
  /** Where the others reach this node. */
  readonly url: string;
  readonly heir: Heir;
  /** The lease of some node has passed. */
  readonly onDeaths: () => void;
};

/** This service among those of its installation. */
export type OwnNode = { readonly lease: NodeLease; readonly roster: Roster; readonly owners: Owners };

/** Joins the installation: the others know this node from now on, and its lease stands. It has no apps yet. */
async function startNode(parts: NodeParts, life: Lifecycle): Promise<OwnNode> {
  const { store, clock, log, dataDir, ownership, url, heir } = parts;
  const self = { url, details: ownDetails(dataDir, clock.now()) };
  const lease = await life.start(
    "lease of this node",
    async () => {
      const started = new NodeLease({ store, clock, log, id: ownership.owner, self });
      await started.begin();
      started.start();
      return started;
    },
    (started) => started.leave(),
  );
  let owners: Owners | null = null;
  const roster = await life.start(
    "other nodes",
    async () => {
      const onChange = (): void => owners?.onNodesChanged();
      const started = new Roster({ store, clock, log, lease, onDeaths: parts.onDeaths, onChange });
      await started.start();
      return started;
    },
    (started) => started.stop(),
  );
  owners = new Owners({ store, clock, log, lease, roster, heir, predecessors: ownership.predecessors });
  return { lease, roster, owners };
}

/** Nothing moves from or to a service that knows of no others. */
const NOBODY: Heir = { prepare: async () => {}, adopt: async () => {} };

/** Joins the others on the same Postgres; null for a service that is the only one on its database. */
export async function joinNodes(
  parts: Omit<NodeParts, "url" | "heir">,
  life: Lifecycle,
): Promise<OwnNode | null> {
  const { store, clock, log, ownership } = parts;
  if (store.kind === "postgres")
    return await startNode({ ...parts, url: "https://127.0.0.1:1", heir: NOBODY }, life);
  await new NodeLease({ store, clock, log, id: ownership.owner, self: null }).begin();
  return null;
}
