import type { BlobStore } from "../blobs/blob-store.ts";
import { endSharing, proveShared } from "../blobs/prove-shared.ts";
import type { Settings } from "../config/setting-keys.ts";
import type { Clock } from "../kit/clock.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Log } from "../kit/log.ts";
import type { Seal } from "../kit/seal.ts";
import type { Glance } from "../model/glance.ts";
import type { NodeDetails, ServiceNode } from "../model/node.ts";
import type { Store } from "../store/store.ts";
import { Authority } from "./authority.ts";
import type { Changes } from "./changes.ts";
import type { NetworkWall } from "../host/walls/network.ts";
import { LEASE_MS, NodeLease } from "./lease.ts";
import { listenAt, PeerListener } from "./peer-listener.ts";
import { Neighbours } from "./neighbours.ts";
import { OwnNode } from "./own-node.ts";
import type { NodeWork } from "./own-node.ts";
import type { Owners } from "./owners.ts";
import type { Ownership } from "./ownership.ts";
import type { PeerRoutes } from "./peer-listener.ts";
import { PeerHeartbeat } from "./peer-heartbeat.ts";
import { Peers } from "./peers.ts";
import { answering, NodeTalk } from "./talk.ts";
import type { Answering } from "./talk.ts";
import { pause } from "../kit/clock.ts";
import { AppLocator } from "./forward/app-locator.ts";
import type { Others } from "./forward/app-locator.ts";
import type { Peer } from "./peers.ts";
import type { Roster } from "./roster.ts";

type JoinParts = Pick<Settings, "nodeUrl"> & {
  readonly store: Store;
  readonly seal: Seal;
  readonly clock: Clock;
  readonly log: Log;
  readonly ownership: Ownership;
  readonly details: () => Omit<NodeDetails, "runs">;
  /** Where all nodes keep what is large. */
  readonly blobs: BlobStore | null;
  /** Throws where the volumes of several nodes would be apart. */
  readonly requireVolumes: (others: readonly string[]) => void;
  /** What the walls of this node's apps go by. */
  readonly network: Pick<NetworkWall, "neighbours" | "managementPort">;
};

/** Several times within the day after which it would count as left behind. */
const NOTE_MS = 6 * 60 * 60 * 1000;

/** What a service has of the others of its installation. */
export type JoinedNodes = {
  readonly url: string;
  readonly owners: Owners;
  /** What others change; whoever remembers such things listens before `serve`. */
  readonly changes: Changes;
  /** By which requests are passed on. */
  readonly others: Others;
  /** How the apps of a project do that other nodes serve; nothing of one that does not answer. */
  glances(projectId: string): Promise<readonly Glance[]>;
  /** Takes requests from others from now on, and apps. */
  serve(
    work: NodeWork & Omit<Answering, "owners" | "greet" | "onDropped">,
    routes: Omit<PeerRoutes, "own">,
  ): Promise<void>;
  /** Where the agents of seats elsewhere reach the other nodes. */
  seatAddresses(): readonly string[];
  /** The same of one of them; null for one that is gone, or has none. */
  seatAddressOf(nodeId: string): string | null;
  /** Whether that node lives, as far as it can be told: true while no other may be taken for dead. */
  isAlive(nodeId: string): boolean;
  /** Whether another may be taken for dead because its lease has passed. */
  mayJudge(): boolean;
  /** Whether another node can take its apps. */
  hasOthers(): boolean;
  /** Whether no other lives, not even one that leaves. */
  isAlone(): boolean;
  /** Gives its apps to the others. */
  leave(): Promise<void>;
};

/** Joins the other services on the same Postgres; null for one that is the only one on its database. */
export async function joinNodes(parts: JoinParts, life: Lifecycle): Promise<JoinedNodes | null> {
  const { store, clock, log, ownership } = parts;
  if (store.kind === "postgres") return await join(parts, life);
  await new NodeLease({ store, clock, log, id: ownership.owner, self: null }).begin();
  ownership.settle();
  return null;
}

async function join(parts: JoinParts, life: Lifecycle): Promise<JoinedNodes> {
  const { store, seal, clock, log, ownership } = parts;
  const identity = (await Authority.open({ store, seal, clock })).issue(ownership.owner);
  const listener = await life.start(
    "listener for other nodes",
    () => PeerListener.listen({ identity, ...listenAt(parts.nodeUrl), log }),
    (started) => started.close(),
  );
  const peers = await life.start(
    "connections to other nodes",
    () => new Peers(identity, clock),
    (started) => started.close(),
  );
  const talk = new NodeTalk({ peers, clock });
  await life.start(
    "greetings to other nodes",
    () => new PeerHeartbeat({ peers, talk, clock, log }).start(),
    (started) => started.stop(),
  );
  const url = parts.nodeUrl ?? `https://127.0.0.1:${listener.port}`;
  // Cut off from Postgres it goes on with its calls. If it is gone, TCP would ask for it a quarter of an hour.
  const onGone = (gone: ServiceNode): void => {
    peers.forget(gone.id);
    void talk.greet(gone).catch(() => peers.abandon(gone.id));
  };
  const node = await OwnNode.join(
    { store, clock, log, ownership, details: parts.details, url, handoverPeer: talk, onGone },
    life,
  );
  const { roster, owners } = node;
  const { neighbours: file, managementPort } = parts.network;
  if (file !== null)
    await life.start(
      "neighbours of apps",
      async () => {
        const nodes = () => roster.all;
        const kept = new Neighbours({ file, nodes, ownId: ownership.owner, managementPort, clock, log });
        await kept.start();
        return kept;
      },
      (started) => started.stop(),
    );
  const prove = await life.start(
    "place of blobs",
    async () => await sharingOf(parts),
    (started) => started.end(),
  );
  const self = { id: ownership.owner, url };
  const locator = new AppLocator({ store, clock, owners, roster, self, talk });
  return {
    url,
    owners,
    changes: node.changes,
    others: { locator, peers },
    glances: async (projectId) => {
      const nodes = roster.all.filter(({ id }) => id !== ownership.owner);
      const asked = await Promise.allSettled(nodes.map((each) => talk.glances(each, projectId)));
      return asked.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
    },
    serve: async (work, routes) => {
      const onDropped = (id: string, requestId: string): void => peers.dropped.drop(id, requestId);
      const own = answering({ ...work, owners, onDropped, greet: (peer) => talk.greet(peer) });
      listener.route({ ...routes, own });
      await prove.with([]);
      await node.serve(work, async () => {
        await meetOthers({ roster, talk, clock, self });
        const others = roster.all.map(({ id }) => id).filter((id) => id !== self.id);
        await prove.with(others);
        parts.requireVolumes(others);
      });
      ownership.settle();
    },
    seatAddresses: () =>
      roster.all.flatMap(({ id, details }) => (id === self.id ? [] : (details.seatAddress ?? []))),
    seatAddressOf: (nodeId) => roster.find(nodeId)?.details.seatAddress ?? null,
    isAlive: (nodeId) => !node.lease.mayJudge || roster.find(nodeId) !== undefined,
    mayJudge: () => node.lease.mayJudge,
    hasOthers: () => roster.takers.some(({ id }) => id !== self.id),
    isAlone: () => roster.all.every(({ id }) => id === self.id || ownership.predecessors.includes(id)),
    leave: async () => {
      await node.leave();
      listener.startClosing();
    },
  };
}

/** By what a node proves that it keeps blobs where the others do. */
async function sharingOf({ blobs, store, ownership, clock, log }: JoinParts) {
  const of = { instanceId: (await store.meta.get("instance_id")) ?? "", nodeId: ownership.owner };
  const prove = async (others: readonly string[]): Promise<void> => {
    if (blobs) await proveShared(blobs, { ...of, others });
  };
  // The note of a node that is gone is removed by its age.
  const timer = clock.every(NOTE_MS, () => {
    prove([]).catch((error: unknown) =>
      log.error({ err: error }, "could not renew a note in the blob store"),
    );
  });
  return {
    with: prove,
    end: async () => {
      timer.cancel();
      if (blobs) await endSharing(blobs, of);
    },
  };
}

type MeetingParts = {
  readonly roster: Roster;
  readonly talk: Pick<NodeTalk, "hello">;
  readonly clock: Clock;
  readonly self: Peer;
};

/** One that has died counts as alive until its lease has passed. */
const PATIENCE_MS = 2 * LEASE_MS;
const LOOK_AGAIN_MS = 500;

/** Another node lives, and cannot be reached from here, or this one from there. */
class UnreachableNodeError extends Error {
  constructor(other: Peer, self: Peer, cause: unknown) {
    super(
      `this service, at ${self.url}, and another of this installation, at ${other.url}, cannot reach each other: ` +
        "set MILLRACE_NODE_URL of each to an address that the others reach",
      { cause },
    );
    this.name = "UnreachableNodeError";
  }
}

/** Another node lives whose data directory has the same name: which apps are whose goes by that name. */
class CopiedDirectoryError extends Error {
  constructor(other: Peer) {
    super(
      `the data directory of this service is a copy of that of the service at ${other.url}: ` +
        "remove the file directory-id from the copy and start again",
    );
    this.name = "CopiedDirectoryError";
  }
}

/**
 * Resolves when every other node that lives was reached, and has reached this one; throws if one is not, or if one has a
 * copy of this node's data directory.
 */
async function meetOthers({ roster, talk, clock, self }: MeetingParts): Promise<void> {
  const met = new Set([self.id]);
  const until = clock.monotonic() + PATIENCE_MS;
  for (;;) {
    const others = roster.all.filter(({ id }) => !met.has(id));
    let failure: { readonly other: Peer; readonly cause: unknown } | null = null;
    for (const other of others) {
      try {
        await talk.hello(other, self);
        met.add(other.id);
      } catch (error) {
        failure = { other, cause: error };
      }
    }
    if (!failure) return requireOwnHome(roster, self);
    if (clock.monotonic() > until) throw new UnreachableNodeError(failure.other, self, failure.cause);
    await pause(clock, LOOK_AGAIN_MS);
    await roster.look();
  }
}

function requireOwnHome(roster: Roster, self: Peer): void {
  const home = roster.find(self.id)?.details.home;
  const twin = roster.all.find(({ id, details }) => id !== self.id && details.home === home);
  if (twin) throw new CopiedDirectoryError(twin);
}
