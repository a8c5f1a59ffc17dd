import type { Claim, GpuBroker, Tenant } from "../host/gpus/broker.ts";
import { canServe, onNoNode } from "../host/gpus/reasons.ts";
import type { Gpu, GpuGrant, GpuKind, GpuWish, MachineGpus } from "../model/gpu.ts";
import { ended, lackOfGpu, noStartTimes, STOPPED } from "./engine.ts";
import type { Engine, Exit, GpuHandling, ReplicaGpus, Seat, SeatOwner, Tenancy } from "./engine.ts";
import type { ServerOwner, Started, StartedServer, Workload } from "./engine.ts";

/** The GPUs of this machine, and what grants them. */
export type Gpus = {
  readonly current: () => MachineGpus;
  readonly broker: Pick<GpuBroker, "request" | "never" | "fits">;
  /** Those of each other node that can take apps; absent on a service alone. */
  readonly others?: () => readonly (readonly GpuKind[])[];
};

export function othersOf(gpus: Gpus | null): readonly (readonly GpuKind[])[] {
  return gpus?.others?.() ?? [];
}

/** Whether any node of the installation has a GPU, even if its driver does not answer. Without one, apps run on the CPU. */
function isAnywhere(gpus: Gpus): boolean {
  const { gpus: own, isDown } = gpus.current();
  return isDown === true || own.length > 0 || othersOf(gpus).some(({ length }) => length > 0);
}

/** The GPUs to ask for here; null for a replica that runs on the CPU, because it wants none or there is none for it. */
export function wishHere(wish: GpuWish | null, gpus: Gpus): GpuWish | null {
  if (!wish || !isAnywhere(gpus)) return null;
  // What a driver has that does not answer is not known.
  if (wish.mayUseCpu !== true || gpus.current().isDown === true) return wish;
  const isServed =
    gpus.broker.never(wish) === null || othersOf(gpus).some((theirs) => canServe(wish, theirs));
  return isServed ? wish : null;
}

type HeldClaim = Holder & {
  readonly gone: Promise<void>;
  endForExcess(): void;
};

const DEFAULT_HANDLING: GpuHandling = { mayFork: true, hidesOthers: false };

type Startable = Pick<Started, "exited" | "kill" | "gone" | "obstacle" | "leaving">;

/** A start that waits for its GPUs, and then has them until its processes are gone. */
type Granted<Process> = Required<Startable> & {
  /** The process; null until it has its GPUs, and if it could not be started. */
  begun(): Process | null;
  readonly granted: Promise<unknown>;
  noteProcess(pid: number): void;
  /** Adds to an exit that it was ended for what it used of its GPU. */
  explain(exit: Exit): Exit;
};

type Holder = { readonly replicaId: string; readonly tenant: Tenant };

/** Has replicas of this machine wait until its broker grants the GPUs that they ask for. */
export class GrantedEngine implements Engine {
  readonly name: string;
  readonly #engine: Engine;
  readonly #gpus: Gpus;
  readonly #tenants = new WeakMap<Tenancy, Tenant>();
  /** The replicas that hold or want GPUs. */
  readonly #holders = new Map<Claim, HeldClaim>();

  constructor(engine: Engine, gpus: Gpus) {
    this.name = engine.name;
    this.#engine = engine;
    this.#gpus = gpus;
  }

  gpuHandling(workload: Workload): GpuHandling {
    return this.#asks(workload) === null ? DEFAULT_HANDLING : this.#handling(workload);
  }

  /** Ends a replica that uses more of a GPU than it was granted. */
  endForExcess(claim: Claim): void {
    this.#holders.get(claim)?.endForExcess();
  }

  open(workload: Workload, keepMs: number, home: Parameters<Engine["open"]>[2], owner: SeatOwner): Seat {
    const seat = this.#engine.open(workload, keepMs, home, owner);
    const { tenancy } = owner;
    if (!workload.gpus || !tenancy) return seat;
    const waiting = new Set<() => void>();
    let hasBegun = false;
    let isLeft = false;
    return {
      start: (replica) => {
        const wish = this.#asks(workload);
        // It comes from another seat with the GPUs that it was granted there.
        if (!wish || replica.gpus) {
          hasBegun = true;
          return seat.start(replica);
        }
        const begin = (gpus: ReplicaGpus): Started => {
          hasBegun = true;
          const started = seat.start({ ...replica, gpus });
          if (isLeft) seat.leave();
          return started;
        };
        const holder = { replicaId: replica.id, tenant: this.#tenantOf(tenancy, workload) };
        const start = this.#grant(wish, holder, workload, begin);
        const kill = (): void => start.kill();
        waiting.add(kill);
        const over = (): void => {
          waiting.delete(kill);
          const isUsable = workload.mayFork && !isLeft;
          if (!hasBegun && !isUsable && waiting.size === 0) owner.onEnded();
        };
        void start.exited.then(over);
        return startedOf(start);
      },
      keepFor: (ms) => seat.keepFor(ms),
      leave: () => {
        isLeft = true;
        seat.leave();
        if (!hasBegun && waiting.size === 0) owner.onEnded();
      },
      close: async () => {
        for (const kill of waiting) kill();
        await seat.close();
      },
    };
  }

  serve(workload: Workload, owner: ServerOwner): StartedServer {
    const wish = this.#asks(workload);
    const { tenancy, replicaId = "" } = owner;
    if (!wish || !tenancy) return this.#engine.serve(workload, owner);
    const begin = (gpus: ReplicaGpus) => this.#engine.serve(workload, { ...owner, gpus });
    const holder = { replicaId, tenant: this.#tenantOf(tenancy, workload) };
    return serverOf(this.#grant(wish, holder, workload, begin));
  }

  /** Null if it asks for no GPU, or runs without because there is none. */
  #asks({ gpus }: Workload): GpuWish | null {
    return wishHere(gpus, this.#gpus);
  }

  #handling(workload: Workload): GpuHandling {
    return this.#engine.gpuHandling?.(workload) ?? DEFAULT_HANDLING;
  }

  #tenantOf(tenancy: Tenancy, { projectId }: Workload): Tenant {
    const known = this.#tenants.get(tenancy);
    if (known) return known;
    const { key, app } = tenancy;
    const tenant: Tenant = {
      key,
      app,
      projectId,
      minReplicas: () => tenancy.minReplicas(),
      idle: () => {
        const idle = new Map(tenancy.idle().map(({ id, sinceMs }) => [id, sinceMs]));
        return [...this.#holders].flatMap(([claim, { replicaId, tenant: holder }]) => {
          const sinceMs = holder === tenant ? idle.get(replicaId) : undefined;
          return sinceMs === undefined ? [] : [{ claim, sinceMs }];
        });
      },
      evict: (claim, forWhom) => {
        const holder = this.#holders.get(claim);
        if (!holder || !tenancy.evict(holder.replicaId, forWhom)) return false;
        // The broker counts on it from now on, although the process takes a while to end.
        claim.release(holder.gone);
        return true;
      },
    };
    this.#tenants.set(tenancy, tenant);
    return tenant;
  }

  #grant<Process extends Startable>(
    wish: GpuWish,
    holder: Holder,
    workload: Workload,
    begin: (gpus: ReplicaGpus) => Process,
  ): Granted<Process> {
    const never = this.#gpus.broker.never(wish);
    const others = othersOf(this.#gpus);
    // If another node can serve it, what waits here goes there with the app.
    if (never !== null && !others.some((theirs) => canServe(wish, theirs)))
      return refused(onNoNode(never, others));
    const claim = this.#gpus.broker.request(wish, holder.tenant, holder.replicaId);
    let begun: Process | null = null;
    let isKilled = false;
    let excess: string | null = null;
    const { promise: leaving, resolve: leave } = Promise.withResolvers<void>();
    const kill = (): void => {
      isKilled = true;
      if (begun) begun.kill();
      else claim.cancel();
    };
    const explain = (exit: Exit): Exit =>
      excess === null ? exit : { ...exit, detail: excess, isOutOfGpuMemory: true };
    const endForExcess = (): void => {
      excess = "it used more GPU memory than the hardware.gpu_memory of its app";
      kill();
    };
    const run = async (grant: GpuGrant): Promise<Exit> => {
      try {
        begun = begin(this.#gpusOf(grant, workload));
        void begun.leaving?.then(leave);
        return explain(await begun.exited);
      } catch (error) {
        return ended((error as Error).message);
      }
    };
    const gone = Promise.withResolvers<void>();
    this.#holders.set(claim, { ...holder, gone: gone.promise, endForExcess });
    const live = async (): Promise<Exit> => {
      const grant = await claim.granted;
      const exit = !grant || isKilled ? STOPPED : await run(grant);
      this.#holders.delete(claim);
      gone.resolve(begun?.gone);
      if (grant) claim.release(gone.promise);
      return exit;
    };
    const obstacle = (): string | null => {
      const awaited = claim.obstacle();
      return never === null || awaited === null
        ? awaited
        : `${awaited}; the app moves to a node that can serve it`;
    };
    return {
      begun: () => begun,
      exited: live(),
      granted: claim.granted,
      leaving,
      gone: gone.promise,
      kill,
      obstacle: () => (begun ? (begun.obstacle?.() ?? null) : obstacle()),
      noteProcess: (pid) => void (pid > 0 && claim.noteProcess(pid)),
      explain,
    };
  }

  #gpusOf(grant: GpuGrant, workload: Workload): ReplicaGpus {
    const { hidesOthers } = this.#handling(workload);
    const files = filesOf(grant.gpus);
    return {
      grant,
      all: filesOf(this.#gpus.current().gpus),
      files,
      variables: gpuVariables(grant, hidesOthers),
    };
  }
}

function filesOf(gpus: readonly Gpu[]): string[] {
  return [...new Set(gpus.flatMap(({ files }) => files))];
}

/** No GPU of this machine will ever serve it. */
function refused(why: string): Granted<never> {
  const exit: Exit = { detail: why, initFailure: lackOfGpu(why) };
  return {
    begun: () => null,
    exited: Promise.resolve(exit),
    granted: Promise.resolve(),
    leaving: new Promise(() => {}),
    gone: Promise.resolve(),
    kill: () => {},
    obstacle: () => why,
    noteProcess: () => {},
    explain: (found) => found,
  };
}

function startOf({ exited, granted, leaving, gone, ...start }: Granted<Startable>) {
  return { exited, granted, leaving, gone, kill: () => start.kill(), obstacle: () => start.obstacle() };
}

function startedOf(start: Granted<Started>): Started {
  return {
    ...startOf(start),
    vitals: (pid) => start.begun()?.vitals(pid) ?? null,
    usage: async (pid) => (await start.begun()?.usage(pid)) ?? null,
    confine: (pid) => {
      start.noteProcess(start.begun()?.hostPid?.(pid) ?? pid);
      return start.begun()?.confine?.(pid) ?? null;
    },
    judge: (exit) => start.explain(start.begun()?.judge?.(exit) ?? exit),
    times: () => start.begun()?.times?.() ?? noStartTimes(),
  };
}

function serverOf(start: Granted<StartedServer>): StartedServer {
  return {
    ...startOf(start),
    get pid() {
      return start.begun()?.pid ?? 0;
    },
    askToEnd: () => start.begun()?.askToEnd(),
    usage: async () => (await start.begun()?.usage()) ?? null,
    place: async () => {
      const place = (await start.begun()?.place()) ?? { kind: "nowhere" };
      // What listens may be a router beside the processes that use the GPU.
      start.noteProcess(start.begun()?.ancestor ?? start.begun()?.pid ?? 0);
      return place;
    },
  };
}

/**
 * What the processes of a replica are told of its GPUs. CUDA counts the GPUs that it can open: from 0 where the others are
 * hidden, else as the host does. It takes MIG instances by UUID only; programs such as vLLM take other GPUs by number only.
 */
export function gpuVariables(
  { gpus, memoryBytes }: GpuGrant,
  areOthersHidden: boolean,
): Readonly<Record<string, string>> {
  const inOrder = gpus.toSorted((one, other) => one.index - other.index);
  const uuids = inOrder.map(({ uuid }) => uuid);
  const numbers = inOrder.map(({ index }, position) => (areOthersHidden ? position : index));
  const whole = Math.min(...inOrder.map((gpu) => gpu.memoryBytes));
  return {
    NVIDIA_VISIBLE_DEVICES: uuids.join(","),
    CUDA_VISIBLE_DEVICES: (inOrder.some(({ isMig }) => isMig) ? uuids : numbers).join(","),
    CUDA_DEVICE_ORDER: "PCI_BUS_ID",
    MILLRACE_GPU_MEMORY: String(memoryBytes ?? whole),
  };
}
