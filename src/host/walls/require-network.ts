import type { Settings } from "../../config/setting-keys.ts";
import { neighboursFile } from "./network.ts";
import type { NetworkWall } from "./network.ts";
import { probeNetwork } from "./probe-network.ts";
import type { Rung } from "./rung.ts";

/** Finds out what this host can enforce. Throws if that is less than the settings ask for. */
export async function requireNetwork(
  settings: Settings,
  rung: Rung | null,
  python: string,
  managementPort: () => number,
): Promise<NetworkWall> {
  const { egressOnly, egressAllow, networkDeny, networkUnenforced } = settings;
  const gap = await findGap(rung, python, settings);
  if (gap !== null && egressOnly && networkUnenforced === "refuse")
    throw new Error(
      `MILLRACE_EGRESS_ONLY is set, but this service cannot enforce it: ${gap}; or set MILLRACE_NETWORK_UNENFORCED=warn`,
    );
  return {
    egressOnly,
    egressAllow,
    networkDeny,
    networkUnenforced,
    hasWalls: rung !== null,
    gap,
    managementPort,
    neighbours: settings.databaseUrl === null ? null : neighboursFile(settings.dataDir),
  };
}

/** Why connections are not judged here, and what to do about it; null where they are. */
export async function findGap(
  rung: Rung | null,
  python: string,
  { dataDir, uidRange }: Pick<Settings, "dataDir" | "uidRange">,
): Promise<string | null> {
  if (rung === null) return "apps live behind no walls: set MILLRACE_ISOLATION to a level";
  const reason = await probeNetwork(python, rung, dataDir, uidRange.first);
  if (reason === null) return null;
  return `${reason} (Linux 5.7 or newer is needed, kernel.yama.ptrace_scope below 2, and in a container the capability SYS_PTRACE)`;
}
