import type { Settings } from "../../config/setting-keys.ts";
import { WATCHER, watchedStorage } from "./host-limits.ts";
import type { Enforced, Enforcement } from "./limits.ts";

const NO_WALLS: Enforced = {
  lacking: "apps live behind no walls",
  remedy: "Set MILLRACE_ISOLATION to auto, process or higher",
};

/** How apps are held to their limits on machines of that place, which strangers use too: by the agents of their seats. */
export function guestEnforcement(
  settings: Pick<Settings, "isolation" | "maxProjectStorageBytes">,
  place: string,
): Enforcement {
  const behindWalls = (by: string): Enforced => (settings.isolation === "none" ? NO_WALLS : { by });
  return {
    memory: { by: WATCHER },
    cpu: {
      lacking: `${place} places apps by what they reserve, and holds nobody to it`,
      remedy:
        "Limit what each node has, and give apps that you do not trust nodes of their own, see docs/ray.md",
    },
    processes: behindWalls(`a limit of 16384 for all processes of ${place}'s user, unless that is root`),
    open_files: behindWalls("a limit of 65536 for each process"),
    scratch: behindWalls(WATCHER),
    storage: watchedStorage(settings),
  };
}
