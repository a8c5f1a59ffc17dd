import type { NetworkWall } from "./network.ts";
import type { WalledHost } from "./outer-keeper.ts";

/** What apps of this host live behind, and their builds and files. */
export type AppWalls = WalledHost & { readonly network: NetworkWall };
