import type { NetworkWall } from "./network.ts";
import type { WalledHost } from "./outer-keeper.ts";

/** What apps of this host live behind, and their builds and files; each project may have its own user. */
export type AppWalls = Omit<WalledHost, "user"> & { readonly network: NetworkWall };
