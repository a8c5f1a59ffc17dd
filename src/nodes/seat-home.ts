import type { NodeSettings } from "../config/node-keys.ts";
import type { Clock } from "../kit/clock.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Log } from "../kit/log.ts";
import type { Seal } from "../kit/seal.ts";
import type { Store } from "../store/store.ts";
import { Authority } from "./authority.ts";
import type { Identity } from "./authority.ts";
import type { JoinedNodes } from "./join-nodes.ts";
import { listenAt } from "./listen-at.ts";
import type { Ownership } from "./ownership.ts";

export type SeatHomeParts = Pick<NodeSettings, "seatUrl" | "seatPort"> & {
  readonly store: Store;
  readonly seal: Seal;
  readonly clock: Clock;
  readonly log: Log;
  readonly ownership: Ownership;
  /** The others, once it has joined them. */
  readonly node: () => Pick<JoinedNodes, "seatAddresses" | "seatAddressOf" | "isAlive"> | null;
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
  /** Where it is reached, as `host:port`, when it listens on that port. */
  addressFor(port: number): string;
  /** Where the other nodes are reached. */
  others(): readonly string[];
};

type SeatRecords = {
  add(record: Omit<Parameters<Store["seats"]["add"]>[0], "owner">): Promise<void>;
  remove(id: string): Promise<void>;
  addressOf(proof: Parameters<Store["seats"]["owner"]>[0]): Promise<string | null>;
};

/** Of services that have died without a word. */
const SWEEP_MS = 60_000;

/** Prepares for seats on other machines. Throws where the installation cannot have any. */
export async function startSeatHome(parts: SeatHomeParts, life: Lifecycle): Promise<SeatHome> {
  const { store, seal, clock, log, seatUrl, seatPort } = parts;
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
  return {
    identity: (await Authority.open({ store, seal, clock })).forSeats(),
    ...listenAt(seatUrl, seatPort),
    whose: {
      installationId: (await store.meta.get("instance_id")) ?? "",
      nodeId: parts.ownership.owner,
    },
    isHeld: ({ nodeId }) => parts.node()?.isAlive(nodeId) ?? true,
    records: recordsOf(parts),
    addressFor: (port) => (seatUrl === null ? `127.0.0.1:${port}` : new URL(seatUrl).host),
    others: () => parts.node()?.seatAddresses() ?? [],
  };
}

function recordsOf({ store, ownership, node }: SeatHomeParts): SeatRecords {
  return {
    add: async (record) => await store.seats.add({ ...record, owner: ownership.owner }),
    remove: async (id) => await store.seats.remove(id),
    addressOf: async (proof) => {
      const owner = await store.seats.owner(proof);
      // One of our own that we do not know has been given up.
      return owner === null || owner === ownership.owner ? null : (node()?.seatAddressOf(owner) ?? null);
    },
  };
}
