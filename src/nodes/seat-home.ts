import { lookup } from "node:dns/promises";
import type { Settings } from "../config/setting-keys.ts";
import type { Clock } from "../kit/clock.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Log } from "../kit/log.ts";
import type { Seal } from "../kit/seal.ts";
import { withTimeout } from "../kit/clock.ts";
import type { Store } from "../store/store.ts";
import { Authority } from "./authority.ts";
import type { Identity } from "./authority.ts";
import type { JoinedNodes } from "./join-nodes.ts";
import { listenAt } from "./peer-listener.ts";
import type { Ownership } from "./ownership.ts";

export type SeatHomeParts = Pick<Settings, "seatUrl" | "seatPort" | "seatServiceUrl"> & {
  readonly store: Store;
  readonly seal: Seal;
  readonly clock: Clock;
  readonly log: Log;
  readonly ownership: Ownership;
  /** The others, once it has joined them. */
  readonly node: () => Pick<
    JoinedNodes,
    "seatAddresses" | "seatAddressOf" | "isAlive" | "isAlone" | "mayJudge" | "owners"
  > | null;
};

/** What a service needs so that agents of seats elsewhere find it, and its seats are known to the other nodes. */
export type SeatHome = {
  /** What it shows them. */
  readonly identity: Omit<Identity, "nodeId">;
  readonly host: string;
  readonly port: number;
  readonly records: SeatRecords;
  readonly whose: { readonly installationId: string; readonly nodeId: string };
  /** Whether the service that began a seat lives; true where that cannot be told. */
  readonly isHeld: (seat: { readonly nodeId: string }) => boolean;
  /** Whether no other service lives. */
  readonly isAlone: () => boolean;
  /** Which of those seats anybody has, or may still take over. */
  readonly known: (seatIds: readonly string[]) => Promise<ReadonlySet<string>>;
  /** Where it is reached, as `host:port`, when it listens on that port. */
  addressFor(port: number): string;
  /** Where the other nodes are reached. */
  others(): readonly string[];
};

type Proof = { readonly id: string; readonly secretHash: Buffer; readonly fence: number };
type Wish = { readonly appNumber: number; readonly versionId: string; readonly workload: Buffer };
type Whereabouts =
  | { readonly kind: "elsewhere"; readonly address: string }
  | { readonly kind: "nowhere" | "open" };

type SeatRecords = {
  mark(content: string): Buffer;
  add(record: Omit<Parameters<Store["seats"]["add"]>[0], "owner">): Promise<void>;
  remove(seat: Pick<Proof, "id" | "fence">): Promise<boolean>;
  claim(wish: Wish): Promise<(Proof & { readonly placeName: string }) | null>;
  find(proof: Proof): Promise<Whereabouts>;
};

/** Of services that have died without a word. */
const SWEEP_MS = 60_000;
/** A start does not wait any longer for a name. */
const LOOKUP_MS = 2_000;

/** Prepares for seats on other machines. Throws where the installation cannot have any. */
export async function startSeatHome(parts: SeatHomeParts, life: Lifecycle): Promise<SeatHome> {
  const { store, seal, clock, log, seatUrl, seatPort, seatServiceUrl } = parts;
  if (store.kind !== "postgres")
    throw new Error(
      "replicas on other machines need Postgres, and blobs that they are fetched from: set MILLRACE_DATABASE_URL and MILLRACE_BLOBS",
    );
  const sweep = (): void =>
    void store.seats
      .removeDead()
      .catch((error: unknown) => log.error({ err: error }, "could not forget the seats of dead services"));
  await life.start(
    "sweep of seats",
    () => clock.every(SWEEP_MS, sweep),
    (timer) => timer.cancel(),
  );
  const lasting = seatServiceUrl === null ? [] : [await numericHost(new URL(seatServiceUrl))];
  return {
    identity: (await Authority.open({ store, seal, clock })).forSeats(),
    ...listenAt(seatUrl, seatPort),
    whose: {
      installationId: (await store.meta.get("instance_id")) ?? "",
      nodeId: parts.ownership.owner,
    },
    isHeld: ({ nodeId }) =>
      !parts.ownership.predecessors.includes(nodeId) && (parts.node()?.isAlive(nodeId) ?? true),
    isAlone: () => parts.node()?.isAlone() ?? false,
    known: async (seatIds) => new Set(await store.seats.known(seatIds)),
    records: recordsOf(parts),
    addressFor: (port) => (seatUrl === null ? `127.0.0.1:${port}` : new URL(seatUrl).host),
    others: () => [...(parts.node()?.seatAddresses() ?? []), ...lasting],
  };
}

/** Seats without a network may not look names up. What cannot be looked up here, they try themselves. */
async function numericHost({ hostname, port, host }: URL): Promise<string> {
  const looking = lookup(hostname.replaceAll(/^\[|\]$/g, "")).catch(() => null);
  const found = await withTimeout(LOOKUP_MS, looking);
  if (found === null) return host;
  return found.family === 6 ? `[${found.address}]:${port}` : `${found.address}:${port}`;
}

function recordsOf({ store, seal, ownership, node }: SeatHomeParts): SeatRecords {
  const { owner, predecessors: dead } = ownership;
  return {
    mark: (content) => seal.mark(Buffer.from(content), "seat"),
    add: async (record) => await store.seats.add({ ...record, owner }),
    remove: async (seat) => await store.seats.remove({ ...seat, owner }),
    claim: async (wish) => {
      const joined = node();
      if (!joined) return null;
      const holder = joined.owners.holderOf(wish.appNumber);
      const claimed = await store.seats.claim({ ...wish, holder, dead, mayJudge: joined.mayJudge() });
      return claimed && { ...claimed, secretHash: Buffer.from(claimed.secretHash) };
    },
    find: async ({ id, secretHash, fence }) => {
      const holder = await store.seats.find({ id, secretHash });
      // No service has given such a fence.
      if (!holder || fence > holder.fence) return { kind: "nowhere" };
      const isOpen = !holder.isAlive || holder.owner === owner || dead.includes(holder.owner);
      const address = isOpen ? null : (node()?.seatAddressOf(holder.owner) ?? null);
      return address === null ? { kind: "open" } : { kind: "elsewhere", address };
    },
  };
}
