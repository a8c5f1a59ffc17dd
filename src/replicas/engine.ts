import type { Home } from "./home.ts";
import type { LogLine } from "./log-lines.ts";

/** What a version's processes need to know, whichever engine runs them. */
export type LaunchSpec = {
  readonly versionId: string;
  /** The project. */
  readonly owner: string;
  readonly bundleDir: string;
  /** The interpreter of its packages; null when it has none. */
  readonly python: string | null;
  /** The version of the interpreter it asks for, such as "3.12"; null where any will do. */
  readonly pythonVersion: string | null;
  /** What the app finds in its environment, beyond the engine's own allow-list. */
  readonly environment: Readonly<Record<string, string>>;
  readonly concurrency: number;
  readonly ignoreExtra: boolean;
  readonly maxResultBytes: number;
  readonly maxChunkBytes: number;
  readonly mayFork: boolean;
  readonly templateKeepMs: number;
};

/** How a replica's process came to its end. */
export type Exit = {
  /** For people: "exit code 3", "killed by SIGKILL". */
  readonly detail: string;
  /** Set when the app's import failed. */
  readonly initFailure: InitFailure | null;
  /** How it broke the protocol, if that is why it was ended; for people, in our own words. */
  readonly fault?: string;
  /** Why it was taken for dead, if that is why it was ended; for people, in our own words. */
  readonly silence?: string;
};

export type InitFailure = {
  /** The last line of the traceback. */
  readonly message: string;
  readonly traceback: string;
  /** It had not ended when its time was over. */
  readonly isTimeout?: true;
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

/** A replica that was asked for; it calls home by itself when it is up. */
export type Started = {
  readonly exited: Promise<Exit>;
  /** Ends the process and everything it started, at once. */
  kill(): void;
  /** Looks at the process, which said that this is its id; null where there is nothing to see, or not now. */
  vitals(pid: number): Vitals | null;
  /** What keeps it from starting that is not its `main.py`, for people; null where nothing does. */
  obstacle?(): string | null;
};

/** Starts the replicas of one version. */
export type Launcher = {
  start(replicaId: string, ticket: string): Started;
  /** Later replicas are started so. Those there are stay as they are, and their template with them. */
  update(spec: LaunchSpec): void;
  /** Ends what is left of the version, kept templates too. */
  close(): Promise<void>;
};

/** What a launcher tells of what it starts, beside what its replicas tell themselves. */
export type LauncherEvents = {
  /** A line of a process that is no replica, or not yet. */
  onLog(line: LogLine): void;
  /** A process that is no replica broke the protocol and is being ended. */
  onFault(fault: string): void;
  /** A process that is no replica was found dead, and another takes its place. */
  onSilence(silence: string): void;
  /** An error of our own met while a process was listened to. */
  onError(error: unknown): void;
};

/** Where replicas run. An engine only starts things and stops them: calls travel by the wire. */
export type Engine = {
  readonly name: string;
  launcher(spec: LaunchSpec, home: Home, events: LauncherEvents): Launcher;
};
