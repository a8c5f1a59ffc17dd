import type { GpuReading } from "../../model/gpu.ts";
import { readStat } from "../processes.ts";

/** How many processes may be between one that holds memory and one that its replica named. */
const MAX_STEPS_UP = 32;

/** The processes of a replica that may hold memory of its GPUs, by the host's ids. */
export class ReplicaProcesses {
  /** Those that it named. */
  readonly named = new Set<number>();
  /** Those that these have started, and that hold memory. */
  below: ReadonlySet<number> = new Set();

  get all(): ReadonlySet<number> {
    return this.below.size === 0 ? this.named : new Set([...this.named, ...this.below]);
  }
}

/** Finds which replica has started a process that holds memory of a GPU. */
export class ProcessOwners {
  readonly #parentOf: (pid: number) => number | null;
  /** The readings whose processes have been assigned to replicas. */
  #assigned: readonly GpuReading[] | null = null;
  /** Those that name processes by ids of another machine: the driver counts as the host does, not as this container. */
  readonly #untold = new Set<GpuReading>();

  /** `parentOf` tells the process above one; null if there is none with that id. */
  constructor(parentOf: (pid: number) => number | null = readParent) {
    this.#parentOf = parentOf;
  }

  /** Has the next call of `readingsOf` look at all processes again: a replica has named another one. */
  changed(): void {
    this.#assigned = null;
  }

  /** The readings by UUID, with `below` of the replicas as they say; without processes whose ids mean nothing here. */
  readingsOf(
    readings: readonly GpuReading[],
    replicas: readonly ReplicaProcesses[],
  ): ReadonlyMap<string, GpuReading> {
    if (readings !== this.#assigned) this.#assign(readings, replicas);
    this.#assigned = readings;
    return new Map(
      readings.map((reading) => [
        reading.uuid,
        this.#untold.has(reading) ? { ...reading, processes: null } : reading,
      ]),
    );
  }

  #assign(readings: readonly GpuReading[], replicas: readonly ReplicaProcesses[]): void {
    this.#untold.clear();
    const owners = new Map<number, ReplicaProcesses>();
    for (const replica of replicas) for (const pid of replica.named) owners.set(pid, replica);
    if (owners.size === 0) return;
    const below = new Map<ReplicaProcesses, Set<number>>();
    for (const reading of readings)
      for (const { pid } of reading.processes ?? []) {
        if (owners.has(pid)) continue;
        // One whose parent has ended is not below its replica any more.
        const known = replicas.find((replica) => replica.below.has(pid));
        const owner = this.#ownerAbove(pid, owners) ?? known;
        if (owner) below.set(owner, (below.get(owner) ?? new Set()).add(pid));
        else if (this.#parentOf(pid) === null) this.#untold.add(reading);
      }
    for (const replica of replicas) replica.below = below.get(replica) ?? new Set();
  }

  #ownerAbove(pid: number, owners: ReadonlyMap<number, ReplicaProcesses>): ReplicaProcesses | null {
    let above = this.#parentOf(pid);
    for (let step = 0; step < MAX_STEPS_UP && above !== null && above > 1; step++) {
      const owner = owners.get(above);
      if (owner) return owner;
      above = this.#parentOf(above);
    }
    return null;
  }
}

function readParent(pid: number): number | null {
  try {
    return readStat(pid).parent;
  } catch {
    return null;
  }
}
