import type { BlobStore } from "../blobs/blob-store.ts";
import { endSharing, proveShared } from "../blobs/prove-shared.ts";
import type { Settings } from "../config/setting-keys.ts";
import { type Clock, pause } from "../kit/clock.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Log } from "../kit/log.ts";
import type { Seal } from "../kit/seal.ts";
import type { LiveStatus } from "../model/app.ts";
import type { GpuKind } from "../model/gpu.ts";
import type { NodeDetails, ServiceNode } from "../model/node.ts";
import type { NodeGpus } from "../shapes/hardware.ts";
import type { Store } from "../store/store.ts";
import { openAuthority } from "./authority.ts";
import { Changes } from "./changes.ts";
import type { NetworkWall } from "../host/walls/network.ts";
import { LEASE_MS, NodeLease } from "./lease.ts";
import { listenAt, PeerListener, type PeerRoutes } from "./peer-listener.ts";
import { Neighbours } from "./neighbours.ts";
import type { AppHost } from "./owned-apps.ts";
import { Owners } from "./owners.ts";
import type { Ownership } from "./ownership.ts";
import { PeerHeartbeat } from "./peer-heartbeat.ts";
import { type Peer, Peers } from "./peers.ts";
import { type Answering, answering, NodeTalk } from "./talk.ts";
import { AppLocator, type Others } from "./forward/app-locator.ts";
import { Roster } from "./roster.ts";

type JoinParts = Pick<Settings, "nodeUrl"> & {
  readonly store: Store;
  readonly seal: Seal;
  readonly clock: Clock;
  readonly log: Log;
  readonly ownership: Ownership;
  readonly details: () => Omit<NodeDetails, "runs">;
  /** The blob store that all nodes share. */
  readonly blobs: BlobStore | null;
  /** Throws if several nodes would have separate volumes. */
  readonly requireVolumes: (others: readonly string[]) => void;
  /** The network rules of this node's walls. */
  readonly network: Pick<NetworkWall, "neighbours" | "managementPort">;
};

/** How often notes in the blob store are renewed; they count as left behind after a day. */
const NOTE_MS = 6 * 60 * 60 * 1000;
/** The minimum gap between comparisons with the database after changes of apps. */
const APP_CHANGES_MS = 200;

/** What a node does for its installation. */
export type NodeWork = AppHost & {
  /** Takes over the runs of dead nodes; the database's time as this node reckons it. */
  judge(reckonedNow: number): void;
  /** How many runs are executed here. */
  runs(): number;
};

/** The other nodes of the installation, as this service uses them. */
export type JoinedNodes = Awaited<ReturnType<typeof join>>;

/** What another node says of its GPUs, or why it said nothing. */
export type OtherNodesGpus = { readonly node: ServiceNode; readonly answer: NodeGpus | Error };

/** Joins the other services on the same Postgres; null for one that is the only one on its database. */
export async function joinNodes(parts: JoinParts, life: Lifecycle): Promise<JoinedNodes | null> {
  const { store, clock, log, ownership } = parts;
  if (store.kind === "postgres") return await join(parts, life);
  await new NodeLease({ store, clock, log, id: ownership.owner, self: null }).begin();
  ownership.settle();
  return null;
}

async function join(parts: JoinParts, life: Lifecycle) {
  const { store, seal, clock, log, ownership } = parts;
  const identity = (await openAuthority({ store, seal, clock })).issue(ownership.owner);
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
    "heartbeats to other nodes",
    () => new PeerHeartbeat({ peers, talk, clock, log }).start(),
    (started) => started.stop(),
  );
  const url = parts.nodeUrl ?? `https://127.0.0.1:${listener.port}`;
  // A node that is only cut off from Postgres continues its calls; a dead one would be retried by TCP for 15 minutes.
  const onGone = (gone: ServiceNode): void => {
    peers.forget(gone.id);
    void talk.heartbeat(gone).catch(() => peers.abandon(gone.id));
  };
  let work: NodeWork | null = null;
  const changes = await life.start(
    "changes by other nodes",
    () => Changes.open(parts),
    (opened) => opened.stop(),
  );
  const lease = new NodeLease({
    ...parts,
    id: ownership.owner,
    self: { url, details: () => ({ ...parts.details(), runs: work?.runs() ?? 0 }) },
  });
  const roster: Roster = new Roster({
    ...parts,
    lease,
    onGone,
    onDeaths: () => work?.judge(lease.reckonedNow),
    onChange: () => owners.onNodesChanged(),
  });
  const { predecessors } = ownership;
  const owners = new Owners({ ...parts, lease, roster, handoverPeer: talk, predecessors });
  changes.on("app", async () => {
    await owners.sync();
    // Others may change many apps: those that change meanwhile are looked up together.
    await pause(clock, APP_CHANGES_MS);
  });
  changes.on("node", () => roster.look());
  changes.onReset(() => roster.look());
  await life.start(
    "lease of this node",
    async () => {
      await lease.begin();
      lease.start();
    },
    () => lease.leave(),
  );
  await life.start(
    "other nodes",
    () => roster.start(),
    () => roster.stop(),
  );
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
    /** Changes by others. Register listeners before `serve`. */
    changes,
    others: { locator, peers } satisfies Others,
    /** The status of the apps of a project that other nodes serve; nothing of a node that does not answer. */
    liveStatuses: async (projectId: string): Promise<readonly LiveStatus[]> => {
      const nodes = roster.all.filter(({ id }) => id !== ownership.owner);
      const asked = await Promise.allSettled(nodes.map((each) => talk.liveStatuses(each, projectId)));
      return asked.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
    },
    /** The GPUs of each other node to which an app can move, as it last told. */
    gpusOfOtherNodes: (): (readonly GpuKind[])[] =>
      roster.takers.filter(({ id }) => id !== ownership.owner).map(({ details: { gpus = [] } }) => gpus),
    askOthersForGpus: async (withHistory: boolean): Promise<OtherNodesGpus[]> => {
      const nodes = roster.all.filter(({ id }) => id !== ownership.owner);
      const ask = async (node: ServiceNode) => ({
        node,
        answer: await talk.gpus(node, withHistory).catch((error: Error) => error),
      });
      return await Promise.all(nodes.map(ask));
    },
    /** From now on takes requests from other nodes, and apps. */
    serve: async (
      given: NodeWork & Omit<Answering, "owners" | "heartbeat" | "onDropped">,
      routes: Omit<PeerRoutes, "own">,
    ): Promise<void> => {
      const onDropped = (id: string, requestId: string): void => peers.dropped.drop(id, requestId);
      const own = answering({ ...given, owners, onDropped, heartbeat: (peer) => talk.heartbeat(peer) });
      listener.route({ ...routes, own });
      await prove.with([]);
      work = given;
      owners.serveBy(given);
      changes.start();
      await lease.announce();
      await roster.look();
      await meetOthers(roster, talk, clock, self);
      const others = roster.all.map(({ id }) => id).filter((id) => id !== self.id);
      await prove.with(others);
      parts.requireVolumes(others);
      await owners.start();
      ownership.settle();
    },
    /** Where agents on other machines reach the other nodes. */
    seatAddresses: (): readonly string[] =>
      roster.all.flatMap(({ id, details }) => (id === self.id ? [] : (details.seatAddress ?? []))),
    seatAddressOf: (nodeId: string): string | null => roster.find(nodeId)?.details.seatAddress ?? null,
    /** Whether that node lives; true as long as this node must not take others for dead. */
    isAlive: (nodeId: string): boolean => !lease.mayJudge || roster.find(nodeId) !== undefined,
    /** Whether another node may be taken for dead because its lease has passed, and by what time. */
    judgement: () => ({ mayJudge: lease.mayJudge, reckonedNow: lease.reckonedNow }),
    /** Whether another node can take its apps. */
    hasOthers: (): boolean => roster.takers.some(({ id }) => id !== self.id),
    /** Whether no other node lives, not even one that is leaving. */
    isAlone: (): boolean => roster.all.every(({ id }) => id === self.id || predecessors.includes(id)),
    /** Hands its apps over to the others. */
    leave: async (): Promise<void> => {
      await lease.startLeaving();
      await owners.leave();
      listener.startClosing();
    },
  };
}

/** Proves that this node uses the same blob store as the others. */
async function sharingOf({ blobs, store, ownership, clock, log }: JoinParts) {
  const of = { instanceId: (await store.meta.get("instance_id")) ?? "", nodeId: ownership.owner };
  const prove = async (others: readonly string[]): Promise<void> => {
    if (blobs) await proveShared(blobs, { ...of, others });
  };
  // Notes of dead nodes are removed by age.
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

/** A dead node counts as alive until its lease has passed. */
const PATIENCE_MS = 2 * LEASE_MS;
const LOOK_AGAIN_MS = 500;

/**
 * Resolves when every other node that lives was reached, and has reached this one; throws if one is not, or if one has a
 * copy of this node's data directory.
 */
async function meetOthers(roster: Roster, talk: NodeTalk, clock: Clock, self: Peer): Promise<void> {
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
    if (!failure) break;
    if (clock.monotonic() > until)
      throw new Error(
        `this service, at ${self.url}, and another of this installation, at ${failure.other.url}, cannot reach ` +
          "each other: set MILLRACE_NODE_URL of each to an address that the others reach",
        { cause: failure.cause },
      );
    await pause(clock, LOOK_AGAIN_MS);
    await roster.look();
  }
  // Which node owns which app depends on the directory's id.
  const home = roster.find(self.id)?.details.home;
  const twin = roster.all.find(({ id, details }) => id !== self.id && details.home === home);
  if (twin)
    throw new Error(
      `the data directory of this service is a copy of that of the service at ${twin.url}: ` +
        "remove the file directory-id from the copy and start again",
    );
}
