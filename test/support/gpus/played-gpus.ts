import { setImmediate as nextTurn } from "node:timers/promises";
import type { Claim, GpuBroker, Tenant } from "../../../src/host/gpus/broker.ts";
import type { Gpu, GpuGrant, GpuReading, GpuWish, MachineGpus } from "../../../src/model/gpu.ts";
import type { HandClock } from "../clocks.ts";

export const GB = 1e9;

/** A GPU of 80 GB that works, unless said otherwise. */
export function madeGpu(index: number, more: Partial<Gpu> = {}): Gpu {
  const model = more.model ?? "H100";
  return {
    uuid: `GPU-${index}`,
    index,
    model,
    name: `NVIDIA ${model}`,
    memoryBytes: 80 * GB,
    busId: `0000:0${index}:00.0`,
    files: [`/dev/nvidia${index}`],
    isMig: false,
    fault: null,
    ...more,
  };
}

/** So many GB of one GPU; null for a whole one. */
export function wishFor(gb: number | null, models: readonly string[] = ["ANY"], count = 1): GpuWish {
  return { models, count, memoryBytes: gb === null ? null : gb * GB };
}

/** Compares names as they are. */
export function matches(asked: string, gpu: Pick<Gpu, "model">): boolean {
  return asked === "ANY" || asked === gpu.model;
}

/** Lets everything happen that needs no time. */
export async function quiet(): Promise<void> {
  for (let turns = 0; turns < 4; turns++) await nextTurn();
}

/** GPUs whose processes a test makes up. What the driver says is as old as the last look. */
export class PlayedGpus {
  /** How much the driver says. */
  knows: "everything" | "memory" | "nothing" = "everything";
  /** Bytes that a process holds, by GPU and process id. */
  readonly used = new Map<string, Map<number, number>>();
  /** Of processes that others have started. */
  readonly parents = new Map<number, number>();
  /** Ids that are none of this machine. */
  readonly unknown = new Set<number>();
  looks = 0;
  isHanging = false;
  /** The driver says at once that it does not work. */
  isDown = false;
  #gpus: readonly Gpu[];
  #seen: readonly GpuReading[] = [];
  readonly #listeners = new Set<() => void>();

  constructor(gpus: readonly Gpu[]) {
    this.#gpus = gpus;
    this.see();
  }

  current(): MachineGpus {
    return { driver: "580.1", gpus: this.#gpus, trouble: null };
  }

  readings(): readonly GpuReading[] {
    return this.#seen;
  }

  /** Takes a turn of the event loop, as a driver's answer does. */
  async look(): Promise<boolean> {
    this.looks += 1;
    if (this.isHanging) return await new Promise(() => {});
    await nextTurn();
    if (this.isDown) return false;
    this.see();
    return true;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  change(gpus: readonly Gpu[]): void {
    this.#gpus = gpus;
    for (const listener of this.#listeners) listener();
  }

  /** What a process holds of a GPU from now on. */
  hold(uuid: string, pid: number, bytes: number): void {
    const there = this.used.get(uuid) ?? new Map<number, number>();
    this.used.set(uuid, there);
    if (bytes > 0) there.set(pid, bytes);
    else there.delete(pid);
  }

  readonly parentOf = (pid: number): number | null =>
    this.unknown.has(pid) ? null : (this.parents.get(pid) ?? 1);

  /** The process has ended, and the driver gave everything back. */
  end(pid: number): void {
    for (const there of this.used.values()) there.delete(pid);
  }

  usedBytes(uuid: string): number {
    return [...(this.used.get(uuid)?.values() ?? [])].reduce((sum, bytes) => sum + bytes, 0);
  }

  see(): void {
    this.#seen = this.#gpus.map(({ uuid, memoryBytes }): GpuReading => {
      const usedBytes = this.usedBytes(uuid);
      const processes = [...(this.used.get(uuid) ?? [])]
        .filter(([pid]) => pid > 0)
        .map(([pid, usedBytes]) => ({ pid, usedBytes }));
      const isKnown = this.knows !== "nothing";
      return {
        uuid,
        usedBytes: isKnown ? usedBytes : null,
        freeBytes: isKnown ? Math.max(0, memoryBytes - usedBytes) : null,
        utilization: null,
        watts: null,
        celsius: null,
        processes: this.knows === "everything" ? processes : null,
      };
    });
  }
}

/** A replica that a test plays. */
export type PlayedReplica = {
  readonly claim: Claim;
  readonly pid: number;
  readonly wish: GpuWish;
  readonly tenant: PlayedTenant;
  grant: GpuGrant | null;
  grantedMs: number;
  /** Null while it is busy, as it is from its start. */
  idleSinceMs: number | null;
  state: "waiting" | "running" | "ending" | "over";
  readonly gone: PromiseWithResolvers<void>;
};

let lastPid = 1_000;

/** A version of an app, whose replicas a test plays. */
export class PlayedTenant implements Tenant {
  readonly key: string;
  readonly app: string;
  readonly projectId: string;
  minimum = 0;
  readonly replicas: PlayedReplica[] = [];
  /** For whom its replicas were evicted. */
  readonly evictedFor: string[] = [];
  onGrant: (replica: PlayedReplica) => void = () => {};
  onEvict: (replica: PlayedReplica) => void = () => {};
  readonly #broker: GpuBroker;
  readonly #clock: HandClock;

  constructor(broker: GpuBroker, clock: HandClock, app: string, projectId = "p-one") {
    this.#broker = broker;
    this.#clock = clock;
    this.key = `${app}-1`;
    this.app = app;
    this.projectId = projectId;
  }

  minReplicas(): number {
    return this.minimum;
  }

  idle(): { claim: Claim; sinceMs: number }[] {
    return this.replicas.flatMap(({ claim, state, idleSinceMs }) =>
      state === "running" && idleSinceMs !== null ? [{ claim, sinceMs: idleSinceMs }] : [],
    );
  }

  evict(claim: Claim, forWhom: string): boolean {
    const replica = this.replicas.find((each) => each.claim === claim)!;
    this.onEvict(replica);
    if (replica.idleSinceMs === null) return false;
    this.evictedFor.push(forWhom.replace(/^app /, ""));
    this.stop(replica);
    return true;
  }

  /** Those in a state. */
  in(state: PlayedReplica["state"]): PlayedReplica[] {
    return this.replicas.filter((replica) => replica.state === state);
  }

  start(wish: GpuWish): PlayedReplica {
    lastPid += 1;
    const claim = this.#broker.request(wish, this, `replica-${lastPid}`);
    const replica: PlayedReplica = {
      claim,
      pid: lastPid,
      wish,
      tenant: this,
      grant: null,
      grantedMs: 0,
      idleSinceMs: null,
      state: "waiting",
      gone: Promise.withResolvers(),
    };
    this.replicas.push(replica);
    void this.#await(replica);
    return replica;
  }

  async #await(replica: PlayedReplica): Promise<void> {
    const { claim } = replica;
    const grant = await claim.granted;
    replica.state = grant ? "running" : "over";
    if (!grant) return;
    replica.grant = grant;
    replica.grantedMs = this.#clock.monotonic();
    claim.noteProcess(replica.pid);
    this.onGrant(replica);
  }

  becomesIdle(replica: PlayedReplica): void {
    replica.idleSinceMs = this.#clock.monotonic();
  }

  /** Gives its claim back; its process goes on until the test ends it. */
  stop(replica: PlayedReplica): void {
    replica.state = "ending";
    replica.claim.release(replica.gone.promise);
  }

  /** Its process has ended. */
  ends(replica: PlayedReplica, gpus: PlayedGpus): void {
    replica.state = "over";
    gpus.end(replica.pid);
    replica.gone.resolve();
  }
}
