/** The limits of a replica, or of a template. */
export type Limits = {
  /** A hard limit; null for none. */
  readonly memoryBytes: number | null;
  /** A hard limit in cores; null for none. */
  readonly cpus: number | null;
  /** Its relative share of the processors when they are busy. */
  readonly cpuShare: number;
};

export type LimitGroup = {
  /** Adds a process and everything it starts from then on. Ignores an ended process. */
  add(pid: number): Promise<void>;
  /** Whether processes in it were ended because memory ran out. */
  ranOut(): boolean;
  remove(): void;
};

/** Folders that an app writes to, by the names that agents use. */
export const FOLDERS = ["scratch", "storage"] as const;
export type FolderName = (typeof FOLDERS)[number];

export type WrittenFolders = {
  /** Folders that are removed with the processes. */
  readonly scratch: readonly string[];
  readonly storage: string | null;
};

/** Limits that an agent enforces, because the kernel does not. */
export type Watched = {
  /** For each replica; null if the kernel limits it, or there is no limit. */
  readonly memoryBytes: number | null;
  readonly folders: readonly {
    readonly name: FolderName;
    readonly maxBytes: number;
    readonly path: string;
  }[];
  /** The storage was full: the agent checks it before it starts anything. */
  readonly checksStorage: boolean;
};

/** The limits that this host can enforce. */
export type AppLimits = {
  readonly enforcement: Enforcement;
  watched(limits: Limits, folders: WrittenFolders): Watched;
  /** An agent reports whether this storage is full; null if it did not check. */
  noteStorage(storage: string | null, isFull: boolean | null): void;
  /** Makes an empty group; null if the kernel gives none. */
  group(limits: Limits): LimitGroup | null;
  describeFull(folder: FolderName): string;
  close(): Promise<void>;
};

export const LIMITS = ["memory", "cpu", "processes", "open_files", "scratch", "storage"] as const;
export type LimitName = (typeof LIMITS)[number];

/** How a limit is enforced; or why it is not, and what to do about it; or which setting would set it. */
export type Enforced =
  | { readonly by: string }
  | { readonly lacking: string; readonly remedy: string }
  | { readonly unset: string };

export type Enforcement = Readonly<Record<LimitName, Enforced>>;

/** Processes and threads of one replica: stops a fork bomb, not an app with many threads. */
export const MAX_PROCESSES = 4_096;

export function describeRunOut({ memoryBytes }: Limits): string {
  if (memoryBytes === null) return "the host ran out of memory";
  return `it used more than its memory = ${memoryBytes / 1e9} GB`;
}

export function describeEnforced(enforced: Enforced): string {
  if ("by" in enforced) return `enforced by ${enforced.by}`;
  if ("unset" in enforced) return `no limit is set: ${enforced.unset} sets one`;
  return `not enforced: ${enforced.lacking}. ${enforced.remedy}`;
}
