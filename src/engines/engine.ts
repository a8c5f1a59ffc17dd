import { constants } from "node:os";
import type { Limits } from "../host/limits/limits.ts";
import type { Version } from "../model/app.ts";
import type { GpuGrant, GpuWish } from "../model/gpu.ts";
import type { AppConfig, Network, PythonWish } from "../model/app-config.ts";
import type { Home } from "./home.ts";
import type { OutputEvents } from "./log-lines.ts";

/** A version of an app, described independently of any machine. An engine turns the ids into folders. */
export type Workload = {
  /** The version, and the blobs that hold its files for engines on other machines. */
  readonly version: Pick<Version, "id" | "appNumber" | "bundleBlob" | "environmentBlob" | "environmentTag">;
  /** The project that owns it, and whose storage it sees. */
  readonly projectId: string;
  /** The names of app and version, for the names of pods. */
  readonly names?: { readonly app: string; readonly version: string };
  /** The id of the folder that holds `main.py`. */
  readonly bundle: string;
  /** The id of its packages and their interpreter; null if it has none. */
  readonly environment: string | null;
  /** The Python that it asks for; null for any. */
  readonly python: PythonWish | null;
  /** The image that it asks for, for engines that run images as they are. */
  readonly image?: string | null;
  /** A build of an app rather than an app. It sees no storage. */
  readonly isBuild?: true;
  readonly buildsImage?: true;
  /** The app's environment variables, besides those of the engine. */
  readonly variables: Readonly<Record<string, string>>;
  readonly concurrency: number;
  readonly ignoreExtra: boolean;
  /** The functions whose calls share executions; absent for none. */
  readonly batching?: AppConfig["batching"] | undefined;
  readonly maxResultBytes: number;
  readonly maxChunkBytes: number;
  /** Its replicas may be forks of a template. */
  readonly mayFork: boolean;
  /** Limits of each replica, and of the template. */
  readonly limits: Limits;
  readonly network: Network;
  /** It may use unix sockets even where it can see those of others. */
  readonly unixSockets: boolean;
  /** The sandbox of its container; null for the engine's default. */
  readonly containerRuntime: "v1" | "v2" | null;
  /** The GPUs that each replica asks for; null for none. */
  readonly gpus: GpuWish | null;
  /** How long its calls may continue after it is asked to end. */
  readonly graceMs: number;
  /** How to start its own server; null for an app that offers functions. */
  readonly server: ServerCommand | null;
};

/** The command that starts an app's own server, as its author wrote it, and the port in it. */
export type ServerCommand = { readonly entrypoint: readonly string[]; readonly port: number };

export type ReplicaStart = {
  readonly id: string;
  /** Authenticates its connections home. */
  readonly ticket: string;
  /** Absent until an engine that grants GPUs has granted them, and for a workload that asks for none. */
  readonly gpus?: ReplicaGpus;
};

/** The GPUs of a replica, as its processes are to see them. */
export type ReplicaGpus = {
  readonly grant: GpuGrant;
  /** The device files of all GPUs that the service may grant. */
  readonly all: readonly string[];
  /** Those of its own. */
  readonly files: readonly string[];
  readonly variables: Readonly<Record<string, string>>;
};

/** The replicas of a version, as an engine sees them that may have to make room for others. */
export type Tenancy = {
  /** Unique among the open versions of this service. */
  readonly key: string;
  readonly app: string;
  /** So many are never ended for others. */
  minReplicas(): number;
  /** Those that no call needs, and since when by the monotonic clock. */
  idle(): readonly { readonly id: string; readonly sinceMs: number }[];
  /** Ends one; false if a call has reached it meanwhile. */
  evict(id: string, forWhom: string): boolean;
};

/** How a replica's process ended. */
export type Exit = {
  /** For people: "exit code 3", "killed by SIGKILL". */
  readonly detail: string;
  readonly initFailure: InitFailure | null;
  readonly fault?: string;
  /** It was ended because it, or the host, ran out of memory. */
  readonly isOutOfMemory?: true;
  /** It was ended because it used more memory of its GPU than it was granted. */
  readonly isOutOfGpuMemory?: true;
  /** Why it was found dead, if it was ended for that. */
  readonly silence?: string;
  /** It was handed over to another service. */
  readonly isLeft?: true;
};

export function ended(detail: string): Exit {
  return { detail, initFailure: null };
}

export const STOPPED = ended("stopped before it started");

/** The end of an app that may not or cannot start, by a reason without a full stop. */
export function refused(why: string): Exit {
  return { detail: why, initFailure: cannotStart(why) };
}

export function cannotStart(why: string): InitFailure {
  const message = `The app cannot start: ${why}.`;
  return { message, traceback: message };
}

/** The end of a wait for GPUs, by a reason without a full stop. */
export function lackOfGpu(why: string): InitFailure {
  const message = `The app waits for a GPU: ${why}.`;
  return { message, traceback: message, lacksGpu: true };
}

/** A keeper reports the signal that ended its process as an exit code of 128 + its number. */
export function describeExit(code: number | null, signal: string | null): string {
  if (signal) return `killed by ${signal}`;
  if (code !== null && code > 128) {
    const name = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
    if (name) return `killed by ${name}`;
  }
  return `exit code ${code}`;
}

export type InitFailure = {
  /** The last line of the traceback. */
  readonly message: string;
  readonly traceback: string;
  /** The start timed out. */
  readonly isTimeout?: true;
  /** A TCP port, other than the one for its calls, that was already in use. */
  readonly portInUse?: number;
  /** It did not get the GPUs that it asks for. */
  readonly lacksGpu?: true;
};

/** The state of a process as the kernel reports it. */
export type Vitals = {
  /** Milliseconds by the machine's own clock. */
  readonly atMs: number;
  /** It cannot run: it was stopped, or is a zombie. */
  readonly isStopped: boolean;
  /** By thread id; only `ALL_THREADS` for a process that has many. */
  readonly threads: ReadonlyMap<number, ThreadVitals>;
};

/** No thread has the id 0. */
export const ALL_THREADS = 0;

export type ThreadVitals = {
  readonly usedMs: number;
  /** It runs, or waits only for a processor. */
  readonly isRunnable: boolean;
};

/** What a replica and everything that it started use. */
export type Usage = {
  /** Processor time since they started, including that of ended processes. */
  readonly cpuMs: number;
  readonly residentBytes: number;
};

/** When a start got so far, by the monotonic clock; 0 for what it has not reached, or does not go through. */
export type StartTimes = {
  /** Its pod or actor has a machine. */
  scheduledAt: number;
  /** That machine has its image. */
  pulledAt: number;
  /** `main.py` was imported. */
  importedAt: number;
};

export function noStartTimes(): StartTimes {
  return { scheduledAt: 0, pulledAt: 0, importedAt: 0 };
}

type StartedHere = {
  readonly exited: Promise<Exit>;
  /** Absent where nothing is known of it. */
  times?(): StartTimes;
  /** Ends it and everything that it started, at once. */
  kill(): void;
  /** Resolves when its pod or machine is about to end; absent where that is not announced. */
  readonly leaving?: Promise<void>;
  /** Why it has not started, if that is not the fault of its code; for people. */
  obstacle?(): string | null;
  /** Resolves when it has its GPUs, or has ended without them: its start begins then. Absent if it waits for none. */
  readonly granted?: Promise<unknown>;
  /** Resolves when its processes are gone; absent if they are as soon as it has exited. */
  readonly gone?: Promise<void>;
};

/** A replica that an engine was asked to start; it connects home when it is up. */
export type Started = StartedHere & {
  /** The state of the process that claims this id; null if unknown. */
  vitals(pid: number): Vitals | null;
  /** What that process and everything it started use; null if unknown. */
  usage(pid: number): Promise<Usage | null>;
  /** Puts the process with this id under its limits, before its first call; null if it already is. */
  confine?(pid: number): Promise<void> | null;
  /** The id on this machine of a process that names this id as its own; 0 if unknown. Absent if both are the same. */
  hostPid?(pid: number): number;
  /** Adds to an exit what only its limits know. */
  judge?(exit: Exit): Exit;
};

/** A template and the replicas that it forks. For a workload that may not fork, a seat is one replica. */
export type Seat = {
  /** Starts a replica here, or through `SeatOwner.elsewhere` if there is no room. */
  start(replica: ReplicaStart): Started;
  keepFor(keepMs: number): void;
  /** Takes no more replicas, and ends with its last one. */
  leave(): void;
  close(): Promise<void>;
};

/** What a seat reports about its processes, besides what its replicas report themselves: lines of those that are none yet. */
export type SeatEvents = OutputEvents & {
  /** Absent where no engine asks for it. */
  readonly tenancy?: Tenancy;
  /** A template broke the protocol and is being ended. */
  onFault(fault: string): void;
  /** A template was found dead, and another replaces it. */
  onSilence(silence: string): void;
};

export type SeatOwner = SeatEvents & {
  /** The template may not fork, and has become the first replica that was started in the seat. */
  onSingle(): void;
  /** Starts a replica for which this seat has no room. */
  elsewhere(replica: ReplicaStart): Started;
  /** The seat takes no more replicas. */
  onOver(): void;
  onEnded(): void;
};

/** Where a server takes connections. */
export type ServerPlace =
  /** `why` is what its author has to fix; absent if it may still start to listen. */
  | { readonly kind: "nowhere"; readonly why?: string }
  | {
      readonly kind: "listening";
      readonly host: string;
      readonly port: number;
      /** A local socket that forwards there, used instead of host and port. */
      readonly path?: string;
      /** Other machines can reach it without the service. */
      readonly isOpen: boolean;
      /** The port is hard-coded, so a second such server cannot run beside it. */
      readonly isFixed: boolean;
    }
  /** Another process listens on its port. */
  | { readonly kind: "taken"; readonly port: number };

export type StartedServer = StartedHere & {
  /** Of its process; 0 if there is none. */
  readonly pid: number;
  /** A process of ours that all of its processes are below; absent if `pid` is one. */
  readonly ancestor?: number;
  askToEnd(): void;
  /** Where it can be reached, after checking that the listener belongs to it. */
  place(): Promise<ServerPlace>;
  /** What it and everything it started use; null if unknown. */
  usage(): Promise<Usage | null>;
};

/** Where replicas run. An engine only starts and stops processes: calls go over the wire, or to a server's port. */
export type Engine = {
  readonly name: string;
  /** How many replicas a seat holds; absent for any number. */
  readonly replicasPerSeat?: number;
  /** A seat reserves part of a shared machine even without a replica, so it is kept only if the app asks for it. */
  readonly reserves?: true;
  /** What becomes of replicas with GPUs; absent where this machine does not grant them. */
  gpuHandling?(workload: Workload): GpuHandling;
  /** Opens a seat that is kept for `keepMs` without a replica. It starts with its first replica. */
  open(workload: Workload, keepMs: number, home: Home, owner: SeatOwner): Seat;
  serve(workload: Workload, owner: ServerOwner): StartedServer;
};

/** What an engine does with replicas that have GPUs. */
export type GpuHandling = {
  /** They may be forks of a template. */
  readonly mayFork: boolean;
  /** Each can open its own GPUs alone, and so counts them from 0. */
  readonly hidesOthers: boolean;
};

/** What an engine is told of a server, and what it reports. */
export type ServerOwner = OutputEvents & {
  readonly replicaId?: string;
  readonly tenancy?: Tenancy;
  readonly gpus?: ReplicaGpus;
};
