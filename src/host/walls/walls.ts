import type { NetworkFields, NetworkWall } from "./network.ts";

/** What an app can live behind, from the weakest to the strongest; each includes those before it. */
export const WALL_LEVELS = ["process", "landlock", "userns", "uid"] as const;
export type WallLevel = (typeof WALL_LEVELS)[number];

/** For each level, why this host cannot give it; null where it can. */
export type Offer = Readonly<Record<WallLevel, string | null>>;

/** What to do about a level that the host does not give. */
export const LEVEL_REMEDIES: Readonly<Record<WallLevel, string>> = {
  process:
    "the kernel must allow seccomp filters (in a container, no profile may forbid them), and Python must have ctypes",
  landlock:
    "Linux 6.12 or newer with Landlock switched on is needed (`cat /sys/kernel/security/lsm` names it; else boot with lsm=landlock,…)",
  userns:
    "ordinary users must be allowed user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, kernel.apparmor_restrict_unprivileged_userns=0) and a whole /proc (see docs/security.md for containers and systemd), and Landlock must be switched on",
  uid: "start the service as root, in a user namespace (if in any) that knows the ids of MILLRACE_UID_RANGE, with a data directory on a file system that stores owners; userns must hold too",
};

/** The strongest level that the host gives together with all before it; null for none. */
export function highestLevel(offer: Offer): WallLevel | null {
  return WALL_LEVELS.findLast((level) => offer[level] === null) ?? null;
}

/** What stands around an app elsewhere, and why that judges no connections; null where it does. */
export type StandingWalls = { readonly level: WallLevel | "none"; readonly gap: string | null };

/** A host whose apps live behind walls. */
export type WalledHost = {
  readonly level: WallLevel;
  readonly dataDir: string;
  /** Who the app runs as; null where that is the service's own user. */
  readonly user: number | null;
  /** Further files and folders of the host that every app may read. */
  readonly reads: readonly string[];
};

/** What apps of this host live behind, and their builds and files; each project may have its own user. */
export type AppWalls = Omit<WalledHost, "user"> & { readonly network: NetworkWall };

/** What of the host a program behind walls may reach. */
export type Reach = {
  readonly folders: {
    /** Where it starts. It may change what is there only if that is among `writes`, or for itself alone. */
    readonly bundle: string;
    /** Packages that it reads. */
    readonly environment: string | null;
    /** What it writes and others of its project see. */
    readonly storage: string | null;
  };
  /** A folder of its own, which it may write to until it ends. */
  readonly scratch: string;
  /** The Python that it is or may start: what that needs of the host is shown to it, beyond what the agent's does. */
  readonly python: { readonly interpreter: string | null; readonly names: string | null };
  /** Beyond what the host shows to all. */
  readonly reads: readonly string[];
  readonly writes: readonly string[];
  /** What it asks for. */
  readonly network: NetworkFields;
  /** It may use unix sockets although those of others are in its view. */
  readonly unixSockets: boolean;
  /** What files in memory, such as those in `/dev/shm`, may take where it has its own; null for as much as the host has. */
  readonly memoryBytes: number | null;
};
