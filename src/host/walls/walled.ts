import type { AppPython } from "../app-python.ts";
import type { NetworkFields } from "./network-fields.ts";
import type { NetworkWall } from "./network.ts";
import type { Rung } from "./rung.ts";

/** A host whose apps live behind walls. */
export type WalledHost = {
  readonly rung: Rung;
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
  readonly python: Pick<AppPython, "interpreter" | "names">;
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
