import type { GpuBroker, Claim, Tenant } from "../../../src/host/gpus/broker.ts";
import type { Gpus } from "../../../src/engines/granted-engine.ts";
import type { Gpu, GpuGrant, GpuWish } from "../../../src/model/gpu.ts";
import { madeGpu } from "./played-gpus.ts";

/** A GPU that exists only for a test: it has no device file. */
export function playedGpu(index: number, model = "H100", memoryBytes = 80e9): Gpu {
  return madeGpu(index, { model, memoryBytes, files: [] });
}

type Entry = {
  readonly claim: Claim;
  readonly tenant: Tenant;
  readonly wish: GpuWish;
  readonly pids: Set<number>;
  readonly resolve: (grant: GpuGrant | null) => void;
  grant: GpuGrant | null;
};

/** A broker that grants in order of arrival, at once if there is room, and else evicts the longest idle replica. */
export class PlayedBroker {
  gpus: readonly Gpu[];
  /** What waits and what is granted, in order. */
  readonly entries = new Set<Entry>();

  constructor(...gpus: readonly Gpu[]) {
    this.gpus = gpus;
  }

  /** As the engine has them. */
  opened(): Gpus {
    return { current: () => ({ driver: "played", gpus: this.gpus, trouble: null }), broker: this.broker };
  }

  readonly broker: Pick<GpuBroker, "request" | "never" | "fits"> = {
    request: (wish, tenant) => this.#request(wish, tenant),
    never: (wish) => (this.#pool(wish).length < wish.count ? `this machine has no ${wish.models[0]}` : null),
    fits: (minimums) => {
      const left = new Map(this.gpus.map(({ uuid, memoryBytes }) => [uuid, memoryBytes]));
      return minimums.filter(({ wish, replicas }) => {
        for (let replica = 0; replica < replicas; replica++) {
          const room = this.#pool(wish).filter(({ uuid, memoryBytes }) =>
            wish.memoryBytes === null
              ? left.get(uuid) === memoryBytes
              : (left.get(uuid) ?? 0) >= wish.memoryBytes,
          );
          if (room.length < wish.count) return true;
          for (const { uuid, memoryBytes } of room.slice(0, wish.count))
            left.set(uuid, (left.get(uuid) ?? 0) - (wish.memoryBytes ?? memoryBytes));
        }
        return false;
      });
    },
  };

  /** What is granted now, as the app's name and the numbers of the GPUs. */
  granted(): string[] {
    return [...this.entries].flatMap(({ tenant, grant }) =>
      grant ? [`${tenant.app} ${grant.gpus.map(({ index }) => index).join("+")}`] : [],
    );
  }

  /** Looks again, as the broker does every second while something waits. */
  look(): void {
    for (const entry of this.entries) {
      if (entry.grant) continue;
      const free = this.#free(entry.wish);
      if (free.length < entry.wish.count) return this.#makeRoomFor(entry);
      entry.grant = { gpus: free.slice(0, entry.wish.count), memoryBytes: entry.wish.memoryBytes };
      entry.resolve(entry.grant);
    }
  }

  #request(wish: GpuWish, tenant: Tenant): Claim {
    const { promise, resolve } = Promise.withResolvers<GpuGrant | null>();
    const claim: Claim = {
      granted: promise,
      obstacle: () => (entry.grant ? null : `${wish.models[0]} is in use`),
      cancel: () => {
        if (entry.grant || !this.entries.delete(entry)) return;
        resolve(null);
        this.look();
      },
      noteProcess: (pid) => void entry.pids.add(pid),
      release: (processesGone) => void processesGone.then(() => this.entries.delete(entry) && this.look()),
    };
    const entry: Entry = { claim, tenant, wish, pids: new Set(), resolve, grant: null };
    this.entries.add(entry);
    queueMicrotask(() => this.look());
    return claim;
  }

  #makeRoomFor(entry: Entry): void {
    const idle = [...new Set([...this.entries].map(({ tenant }) => tenant))]
      .filter((tenant) => tenant !== entry.tenant)
      .flatMap((tenant) => tenant.idle().map((each) => ({ ...each, tenant })))
      .toSorted((one, other) => one.sinceMs - other.sinceMs);
    const holders = ({ tenant }: { readonly tenant: Tenant }): number =>
      [...this.entries].filter((each) => each.tenant === tenant && each.grant).length;
    const [longest] = idle.filter((each) => holders(each) > each.tenant.minReplicas());
    longest?.tenant.evict(longest.claim, `app ${entry.tenant.app}`);
  }

  #pool({ models }: GpuWish): Gpu[] {
    return this.gpus.filter(({ model }) => models.includes(model) || models.includes("ANY"));
  }

  #free(wish: GpuWish): Gpu[] {
    return this.#pool(wish).filter(({ uuid, memoryBytes }) => {
      const held = [...this.entries].flatMap(({ grant }) =>
        grant?.gpus.some((gpu) => gpu.uuid === uuid) ? [grant.memoryBytes ?? memoryBytes] : [],
      );
      const used = held.reduce((sum, bytes) => sum + bytes, 0);
      return used + (wish.memoryBytes ?? memoryBytes) <= memoryBytes;
    });
  }
}
