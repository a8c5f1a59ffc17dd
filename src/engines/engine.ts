import { constants } from "node:os";
import type { Limits } from "../host/limits/limits.ts";
import type { Version } from "../model/app.ts";
import type { Network, PythonWish } from "../model/app-config.ts";
import type { Home } from "./home.ts";
import type { PrintedLine } from "./log-lines.ts";

/** What is to run: a version of an app, described without naming any machine. An engine turns the ids into folders. */
export type Workload = {
  /** Which version of which app it is, and the blobs that hold its files, for engines that have none of this machine's. */
  readonly version: Pick<Version, "id" | "appNumber" | "bundleBlob" | "environmentBlob" | "environmentTag">;
  /** Whose it is, and whose storage it sees. */
  readonly projectId: string;
  /** The app and its version as people call them; places name what they start by it. Absent where nobody asks. */
  readonly names?: { readonly app: string; readonly version: string };
  /** The id of the folder that holds `main.py`. */
  readonly bundle: string;
  /** The id of its packages, with the interpreter they were made for; null when it has none. */
  readonly environment: string | null;
  /** The interpreter it asks for; null where any will do. */
  readonly python: PythonWish | null;
  /** The image that it asks for, for engines that run images as they are; absent or null for the engine's own. */
  readonly image?: string | null;
  /** No app: what is to run later is built. It sees nobody's storage. */
  readonly isBuild?: true;
  /** What is built is an image. */
  readonly buildsImage?: true;
  /** What the app finds in its environment, beyond what an engine shows of its own. */
  readonly variables: Readonly<Record<string, string>>;
  /** How many calls a replica takes at once. */
  readonly concurrency: number;
  readonly ignoreExtra: boolean;
  readonly maxResultBytes: number;
  readonly maxChunkBytes: number;
  /** Its replicas may be forks of a template. */
  readonly mayFork: boolean;
  /** What each of its replicas may use, and its template. */
  readonly limits: Limits;
  readonly network: Network;
  /** It may use unix sockets where those of others are in its view. */
  readonly unixSockets: boolean;
  /** The sandbox of its container, where it has one; null for the engine's own choice. */
  readonly containerRuntime: "v1" | "v2" | null;
  /** The GPUs that it asks for; null for none. */
  readonly cards: { readonly names: readonly string[]; readonly count: number } | null;
  /** How long its calls may go on once it is asked to end. */
  readonly graceMs: number;
  /** How its own server is started; null for an app that offers functions. */
  readonly server: ServerCommand | null;
};

/** The command that starts an app's own server, as its author wrote it, and the port that stands in it. */
export type ServerCommand = { readonly entrypoint: readonly string[]; readonly port: number };

/** What of a start is one replica's own. */
export type ReplicaStart = {
  readonly id: string;
  /** What it shows where it calls home. */
  readonly ticket: string;
};

/** How a replica's process came to its end. */
export type Exit = {
  /** For people: "exit code 3", "killed by SIGKILL". */
  readonly detail: string;
  /** Set when the app's import failed. */
  readonly initFailure: InitFailure | null;
  /** How it broke the protocol, if that is why it was ended; for people, in our own words. */
  readonly fault?: string;
  /** It was ended because it used up its memory, or the host's. */
  readonly isOutOfMemory?: true;
  /** Why it was taken for dead, if that is why it was ended; for people, in our own words. */
  readonly silence?: string;
  /** It goes on for another service, and nothing more of it is heard here. */
  readonly isLeft?: true;
};

/** For people. A keeper tells the signal of what it kept as 128 + its number. */
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
  /** It had not ended when its time was over. */
  readonly isTimeout?: true;
  /** A TCP port, other than the one for its calls, that it could not listen on because something else does. */
  readonly portInUse?: number;
};

/** How a process looks from outside. */
export type Vitals = {
  /** When that was, in milliseconds by the machine's own clock. */
  readonly atMs: number;
  /** It cannot run: it was stopped, or is dead and not yet buried. */
  readonly isStopped: boolean;
  /** By thread; of a process that has many, `ALL_THREADS` alone. */
  readonly threads: ReadonlyMap<number, ThreadVitals>;
};

/** In place of a thread's id, which is never 0: all of them together. */
export const ALL_THREADS = 0;

export type ThreadVitals = {
  /** Processor time used since it began. */
  readonly usedMs: number;
  /** It runs, or would if a processor were free. */
  readonly isRunnable: boolean;
};

/** What a replica and everything it started use. */
export type Usage = {
  /** Processor time since they began, of those that have ended too. */
  readonly cpuMs: number;
  readonly residentBytes: number;
};

/** A replica that was asked for; it calls home by itself when it is up. */
export type Started = {
  readonly exited: Promise<Exit>;
  /** Ends the process and everything it started, at once. */
  kill(): void;
  /** Looks at the process, which said that this is its id; null where there is nothing to see, or not now. */
  vitals(pid: number): Vitals | null;
  /** What that process uses, with all it started; null where nobody can tell. */
  usage(pid: number): Promise<Usage | null>;
  /** Resolves when its place is about to end, by whoever has that; absent where places do not. */
  readonly leaving?: Promise<void>;
  /** Puts the process with this id under its limits, before it is given a call; null where it is under them already. */
  confine?(pid: number): Promise<void> | null;
  /** How it ended, with what only its limits tell. */
  judge?(exit: Exit): Exit;
  /** What keeps it from starting that is not its `main.py`, for people; null where nothing does. */
  obstacle?(): string | null;
};

/** Where a template sits, with the replicas it forks. For a workload that may not fork, it is one replica. */
export type Seat = {
  /** Starts a replica here, or by `SeatOwner.elsewhere` if it turns out that there is no room. */
  start(replica: ReplicaStart): Started;
  /** How long to keep it without a replica, from now on. */
  keepFor(keepMs: number): void;
  /** No more replicas: it ends with the last one it has. */
  leave(): void;
  /** Ends whatever is left of it. */
  close(): Promise<void>;
};

/** What a seat tells of its processes, beside what its replicas tell themselves. */
export type SeatEvents = {
  /** A line of a process that is no replica, or not yet. */
  onLog(line: PrintedLine): void;
  /** A process that is no replica broke the protocol and is being ended. */
  onFault(fault: string): void;
  /** A process that is no replica was found dead, and another takes its place. */
  onSilence(silence: string): void;
  /** An error of our own met while a process was listened to. */
  onError(error: unknown): void;
};

/** The owner of a seat: what it learns from the seat, and does for it. */
export type SeatOwner = SeatEvents & {
  /** It may not fork: it has become the first replica that was started in it. */
  onSingle(): void;
  /** Starts a replica that this seat has no room for. */
  elsewhere(replica: ReplicaStart): Started;
  /** It takes no more replicas. */
  onOver(): void;
  /** Nothing is left of it. */
  onEnded(): void;
};

/** Where a server takes connections. */
export type ServerPlace =
  /** Nothing listens yet, or not any more. */
  | {
      readonly kind: "nowhere";
      /** What its author has to mend, for people; absent where it may come by itself. */
      readonly why?: string;
    }
  | {
      readonly kind: "listening";
      readonly host: string;
      readonly port: number;
      /** A socket of this machine in place of both: it leads there, wherever that is. */
      readonly path?: string;
      /** Other machines reach it too, past the service. */
      readonly isOpen: boolean;
      /** The port is in its code: there cannot be a second such server beside it. */
      readonly isFixed: boolean;
    }
  /** Somebody else listens where it should. */
  | { readonly kind: "taken"; readonly port: number };

/** An app's own server that was asked for. */
export type StartedServer = {
  /** Of its process; 0 while there is none. */
  readonly pid: number;
  readonly exited: Promise<Exit>;
  /** Ends it and everything it started, at once. */
  kill(): void;
  /** Asks it to end by itself. */
  askToEnd(): void;
  /** Resolves when its place is about to end, by whoever has that; absent where places do not. */
  readonly leaving?: Promise<void>;
  /** Where it can be reached, checked to be its own. */
  place(): Promise<ServerPlace>;
  /** What it uses, with all it started; null where nobody can tell. */
  usage(): Promise<Usage | null>;
  /** What keeps it from starting that is not its own code, for people; null where nothing does. */
  obstacle?(): string | null;
};

/** What is learned of a server's process. */
export type ServerEvents = {
  onLog(line: PrintedLine): void;
  /** An error of our own met while it was listened to. */
  onError(error: unknown): void;
};

/** Where replicas run. An engine only starts things and stops them: calls travel by the wire, or to a server's port. */
export type Engine = {
  readonly name: string;
  /** How many replicas a seat holds; absent for any number. */
  readonly replicasPerSeat?: number;
  /** A seat reserves part of a shared machine even without a replica, so it is kept only if the app asks for that. */
  readonly reserves?: true;
  /** Opens a seat that is kept for `keepMs` without a replica. Nothing runs there until its first replica starts. */
  open(workload: Workload, keepMs: number, home: Home, owner: SeatOwner): Seat;
  /** Starts the server of a workload that is one. */
  serve(workload: Workload, events: ServerEvents): StartedServer;
};
