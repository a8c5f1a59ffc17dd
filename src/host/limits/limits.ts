/** What the processes of one replica, or of one template, may use. */
export type Limits = {
  /** Hard; null for as much as the host has. */
  readonly memoryBytes: number | null;
  /** Hard, in cores; null for as much as is free. */
  readonly cpus: number | null;
  /** How much of the processors it gets when there are too few for all, in relation to what others have here. */
  readonly cpuShare: number;
};

/** A group of processes that share limits. */
export type LimitGroup = {
  /** Puts a process in, and with it all that it starts from then on. Does nothing for one that has ended. */
  add(pid: number): Promise<void>;
  /** Whether processes in it were ended because they used up their memory. */
  ranOut(): boolean;
  /** Ends what is left in it, and removes it. */
  remove(): void;
};

/** Folders that an app's processes write to. */
export type WrittenFolders = {
  /** Those that are gone when the processes are. */
  readonly scratch: readonly string[];
  /** Null where they have none. */
  readonly storage: string | null;
};

/** What an agent watches, where nothing else holds an app to it. */
export type Watched = {
  /** Of each replica; null where the kernel limits it, or nothing does. */
  readonly memoryBytes: number | null;
  readonly folders: readonly {
    readonly name: "scratch" | "storage";
    readonly maxBytes: number;
    readonly path: string;
  }[];
  /** The storage was full: nothing starts until it is not. */
  readonly checksStorage: boolean;
};

/** What the host can hold an app to. */
export type AppLimits = {
  readonly enforcement: Enforcement;
  /** What the agent of something with these limits has to watch. */
  watched(limits: Limits, folders: WrittenFolders): Watched;
  /** An agent has seen whether this storage is full; null if it has not looked. */
  noteStorage(storage: string | null, isFull: boolean | null): void;
  /** Makes a group; nothing is in it yet. Null where the kernel gives none. */
  group(limits: Limits): LimitGroup | null;
  /** For people, which of its folders an app has filled. */
  describeFull(folder: "scratch" | "storage"): string;
  /** Removes what is left of all groups. */
  close(): Promise<void>;
};

/** What is limited. */
export const LIMITS = ["memory", "cpu", "processes", "open_files", "scratch", "storage"] as const;
export type LimitName = (typeof LIMITS)[number];

/** How a limit is enforced; or why it is not, and what to do about it; or which setting would set it. */
export type Enforced =
  | { readonly by: string }
  | { readonly lacking: string; readonly remedy: string }
  | { readonly unset: string };

export type Enforcement = Readonly<Record<LimitName, Enforced>>;

/** Processes and threads of one replica: a bomb ends here, an app with many threads does not. */
export const MAX_PROCESSES = 4_096;

/** For people, why processes of a group were ended. */
export function describeRunOut({ memoryBytes }: Limits): string {
  if (memoryBytes === null) return "the host ran out of memory";
  return `it used more than its memory = ${memoryBytes / 1e9} GB`;
}

/** For people, how a limit is enforced, or that it is not. */
export function describeEnforced(enforced: Enforced): string {
  if ("by" in enforced) return `enforced by ${enforced.by}`;
  if ("unset" in enforced) return `no limit is set: ${enforced.unset} sets one`;
  return `not enforced: ${enforced.lacking}. ${enforced.remedy}`;
}
