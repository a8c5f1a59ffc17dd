import type { Settings } from "../../config/setting-keys.ts";
import { probeNetwork, probeLevels } from "./probes.ts";
import { highestLevel, LEVEL_REMEDIES, type Offer, WALL_LEVELS, type WallLevel } from "./walls.ts";
import { neighboursFile, type NetworkWall } from "./network.ts";

export type Isolated = {
  readonly level: WallLevel | null;
  /** Why apps are not isolated, and what to do about it; null if they are. */
  readonly lack: string | null;
};

/** Finds the strongest level that the host supports. Throws if it is weaker than the setting, and says what is missing. */
export async function requireLevel(
  { isolation, dataDir, uidRange }: Pick<Settings, "isolation" | "dataDir" | "uidRange">,
  python: string,
  reads: readonly string[],
): Promise<Isolated> {
  if (isolation === "none") return { level: null, lack: "MILLRACE_ISOLATION=none" };
  const offer = await probeLevels({ python, dataDir, reads, user: uidRange.first });
  const complaint = isolation === "auto" ? null : complaintAbout(isolation, offer);
  if (complaint !== null) throw new Error(complaint);
  const level = highestLevel(offer);
  return { level, lack: level === null ? lackOf(offer) : null };
}

/** Why the host supports no level, and what to do. */
export function lackOf({ process: reason }: Offer): string {
  return `this host gives none: ${reason}. ${LEVEL_REMEDIES.process}`;
}

/** Why the host supports neither a level nor one above it, and what to do; null if it does. */
export function complaintAbout(level: WallLevel, offer: Offer): string | null {
  const highest = highestLevel(offer);
  if (highest !== null && WALL_LEVELS.indexOf(highest) >= WALL_LEVELS.indexOf(level)) return null;
  const instead = highest === null ? "" : `; or set it to ${highest}, which this host gives`;
  return `MILLRACE_ISOLATION=${level}, but this host cannot give that: ${offer[level]}. ${LEVEL_REMEDIES[level]}${instead}`;
}

/** Finds out which network rules this host can enforce. Throws if the settings require more. */
export async function requireNetwork(
  settings: Settings,
  level: WallLevel | null,
  python: string,
  managementPort: () => number,
): Promise<NetworkWall> {
  const { egressOnly, egressAllow, networkDeny, networkUnenforced } = settings;
  const gap = await findGap(level, python, settings);
  if (gap !== null && egressOnly && networkUnenforced === "refuse")
    throw new Error(
      `MILLRACE_EGRESS_ONLY is set, but this service cannot enforce it: ${gap}; or set MILLRACE_NETWORK_UNENFORCED=warn`,
    );
  const neighbours = settings.databaseUrl === null ? null : neighboursFile(settings.dataDir);
  const found = { hasWalls: level !== null, gap, managementPort, neighbours };
  return { egressOnly, egressAllow, networkDeny, networkUnenforced, ...found };
}

/** Why connections are not filtered here, and what to do about it; null if they are. */
export async function findGap(
  level: WallLevel | null,
  python: string,
  { dataDir, uidRange }: Pick<Settings, "dataDir" | "uidRange">,
): Promise<string | null> {
  if (level === null) return "apps live behind no walls: set MILLRACE_ISOLATION to a level";
  const reason = await probeNetwork(python, level, dataDir, uidRange.first);
  if (reason === null) return null;
  return `${reason} (Linux 5.7 or newer is needed, kernel.yama.ptrace_scope below 2, and in a container the capability SYS_PTRACE)`;
}
