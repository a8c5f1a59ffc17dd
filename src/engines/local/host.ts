import type { AppLimits } from "../../host/limits/limits.ts";
import type { StorageFolders } from "../../host/storage/folders.ts";
import type { NetworkWall } from "../../host/walls/network.ts";
import type { WallLevel } from "../../host/walls/walls.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Ports } from "../server/ports.ts";

/** What of a machine its seats have to know. */
export type ProcessHost = {
  /** The interpreter for apps that ask for no other. */
  readonly python: string;
  /** Where bundles, environments and storage are. */
  readonly dataDir: string;
  /** What apps live behind; null for nothing. */
  readonly level: WallLevel | null;
  /** What they may read of it, beyond what every program needs; absent for nothing. */
  readonly reads?: readonly string[];
  /** What it can hold them to; absent for nothing. */
  readonly limits?: AppLimits;
  readonly network: NetworkWall;
  /** The projects' folders, and who their processes run as. */
  readonly storage: Pick<StorageFolders, "userOf">;
  /** For apps that are servers of their own; one set for all engines, or two servers would get the same. */
  readonly ports: Ports;
  readonly clock: Clock;
};
