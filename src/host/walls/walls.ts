import type { NetworkFields, NetworkWall } from "./network.ts";

/** The levels of isolation, from weakest to strongest; each includes those before it. */
export const WALL_LEVELS = ["process", "landlock", "userns", "uid"] as const;
export type WallLevel = (typeof WALL_LEVELS)[number];

/** For each level, why this host does not support it; null if it does. */
export type Offer = Readonly<Record<WallLevel, string | null>>;

/** How to enable a level that the host does not support. */
export const LEVEL_REMEDIES: Readonly<Record<WallLevel, string>> = {
  process:
    "the kernel must allow seccomp filters (in a container, no profile may forbid them), and Python must have ctypes",
  landlock:
    "Linux 6.12 or newer with Landlock switched on is needed (`cat /sys/kernel/security/lsm` names it; else boot with lsm=landlock,…)",
  userns:
    "ordinary users must be allowed user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, kernel.apparmor_restrict_unprivileged_userns=0) and a whole /proc (see docs/security.md for containers and systemd), and Landlock must be switched on",
  uid: "start the service as root, in a user namespace (if in any) that knows the ids of MILLRACE_UID_RANGE, with a data directory on a file system that stores owners; userns must hold too",
};

/** The strongest level that the host supports; null for none. */
export function highestLevel(offer: Offer): WallLevel | null {
  return WALL_LEVELS.findLast((level) => offer[level] === null) ?? null;
}

/** Whether a level keeps apps from GPUs that they were not granted; all of them can open every GPU otherwise. */
export function closesGpus(level: WallLevel | null): boolean {
  return level !== null && level !== "process";
}

/** The walls around a remote app, and why they do not filter connections; null if they do. */
export type StandingWalls = { readonly level: WallLevel | "none"; readonly gap: string | null };

/** A host that isolates its apps. */
export type WalledHost = {
  readonly level: WallLevel;
  readonly dataDir: string;
  /** Null for the service's own user. */
  readonly user: number | null;
  /** Additional files and folders of the host that every app may read. */
  readonly reads: readonly string[];
};

/** The walls around apps, builds and file runs of this host; each project may have its own user. */
export type AppWalls = Omit<WalledHost, "user"> & { readonly network: NetworkWall };

/** What a program behind walls may access. */
export type Reach = {
  readonly folders: {
    /** Where it starts. It may change the folder only if it is among `writes`, or in a private copy. */
    readonly bundle: string;
    readonly environment: string | null;
    readonly storage: string | null;
  };
  /** A private folder that it may write to until it ends. */
  readonly scratch: string;
  /** The Python that it uses: the files that this Python needs are visible to it. */
  readonly python: { readonly interpreter: string | null; readonly names: string | null };
  /** Besides what every app may read. */
  readonly reads: readonly string[];
  readonly writes: readonly string[];
  readonly network: NetworkFields;
  /** It may use unix sockets even where it can see those of others. */
  readonly unixSockets: boolean;
  /** Limit for its own in-memory files, such as `/dev/shm`; null for none. */
  readonly memoryBytes: number | null;
};
