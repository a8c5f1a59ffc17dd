import { lookup } from "node:dns/promises";
import type { Settings } from "../config/setting-keys.ts";
import { type Clock, withTimeout } from "../kit/clock.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Log } from "../kit/log.ts";
import type { Seal } from "../kit/seal.ts";
import type { Store } from "../store/store.ts";
import { openAuthority } from "./authority.ts";
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
    "seatAddresses" | "seatAddressOf" | "isAlive" | "isAlone" | "judgement" | "owners"
  > | null;
};

type Proof = { readonly id: string; readonly secretHash: Buffer; readonly fence: number };
type Wish = { readonly appNumber: number; readonly versionId: string; readonly workload: Buffer };
type Whereabouts =
  | { readonly kind: "elsewhere"; readonly address: string }
  | { readonly kind: "nowhere" | "open" };

/** How often the seats of dead services are removed. */
const SWEEP_MS = 60_000;
/** How long a start waits for a name lookup. */
const LOOKUP_MS = 2_000;

/** What a service needs so that agents on other machines find it. Throws if the installation cannot have such seats. */
export async function startSeatHome(parts: SeatHomeParts, life: Lifecycle) {
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
    identity: (await openAuthority({ store, seal, clock })).forSeats(),
    ...listenAt(seatUrl, seatPort),
    whose: {
      installationId: (await store.meta.get("instance_id")) ?? "",
      nodeId: parts.ownership.owner,
    },
    /** Whether the service that began a seat lives; true if that is unknown. */
    isHeld: ({ nodeId }: { readonly nodeId: string }): boolean =>
      !parts.ownership.predecessors.includes(nodeId) && (parts.node()?.isAlive(nodeId) ?? true),
    isAlone: (): boolean => parts.node()?.isAlone() ?? false,
    /** Those of the seats that a service has, or may still take over. */
    known: async (seatIds: readonly string[]): Promise<ReadonlySet<string>> =>
      new Set(await store.seats.known(seatIds)),
    records: recordsOf(parts),
    /** Where it is reached, as `host:port`, if it listens on that port. */
    addressFor: (port: number): string => (seatUrl === null ? `127.0.0.1:${port}` : new URL(seatUrl).host),
    others: (): readonly string[] => [...(parts.node()?.seatAddresses() ?? []), ...lasting],
  };
}

/** Seats without a network cannot look names up. A name that this service cannot resolve is left to the seat. */
async function numericHost({ hostname, port, host }: URL): Promise<string> {
  const looking = lookup(hostname.replaceAll(/^\[|\]$/g, "")).catch(() => null);
  const found = await withTimeout(LOOKUP_MS, looking);
  if (found === null) return host;
  return found.family === 6 ? `[${found.address}]:${port}` : `${found.address}:${port}`;
}

function recordsOf({ store, seal, ownership, node }: SeatHomeParts) {
  const { owner, predecessors: dead } = ownership;
  return {
    mark: (content: string): Buffer => seal.mark(Buffer.from(content), "seat"),
    add: async (record: Omit<Parameters<Store["seats"]["add"]>[0], "owner">): Promise<void> =>
      await store.seats.add({ ...record, owner }),
    remove: async (seat: Pick<Proof, "id" | "fence">): Promise<boolean> =>
      await store.seats.remove({ ...seat, owner }),
    claim: async (wish: Wish): Promise<(Proof & { readonly placeName: string }) | null> => {
      const joined = node();
      if (!joined) return null;
      const holder = joined.owners.holderOf(wish.appNumber);
      const claimed = await store.seats.claim({ ...wish, holder, dead, ...joined.judgement() });
      return claimed && { ...claimed, secretHash: Buffer.from(claimed.secretHash) };
    },
    find: async ({ id, secretHash, fence }: Proof): Promise<Whereabouts> => {
      const holder = await store.seats.find({ id, secretHash });
      // No service has given such a fence.
      if (!holder || fence > holder.fence) return { kind: "nowhere" };
      const isOpen = !holder.isAlive || holder.owner === owner || dead.includes(holder.owner);
      const address = isOpen ? null : (node()?.seatAddressOf(holder.owner) ?? null);
      return address === null ? { kind: "open" } : { kind: "elsewhere", address };
    },
  };
}
