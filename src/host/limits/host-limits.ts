import { envOf, SETTING_KEYS, type Settings } from "../../config/setting-keys.ts";
import { showSize } from "../../kit/units.ts";
import type { WallLevel } from "../walls/walls.ts";
import { findHierarchy, type FoundHierarchy } from "./find-hierarchy.ts";
import { MAX_PROCESSES } from "./limits.ts";
import type { AppLimits, Enforced, Enforcement, FolderName, LimitGroup, Limits } from "./limits.ts";
import type { Watched, WrittenFolders } from "./limits.ts";
import type { Controller } from "./hierarchy.ts";

const DELEGATE =
  "Give the service a control group of its own: under systemd with Delegate=yes (packaging/millrace.service has it), in a container with a writable /sys/fs/cgroup";

const WAY_OUT = " (which an app can leave if it wants to: MILLRACE_ISOLATION=landlock prevents that)";
const OWN_NODES =
  "Limit what each node has, and give apps that you do not trust nodes of their own, see docs/ray.md";
const NO_WALLS = "apps live behind no walls";
/** How a limit is enforced where the kernel does not. */
const WATCHER = "a watcher, which looks every second";
const SCRATCH_SETTING = envOf(SETTING_KEYS.maxScratchBytes.name);
const STORAGE_SETTING = envOf(SETTING_KEYS.maxProjectStorageBytes.name);

type LimitSettings = Pick<Settings, "dataDir" | "maxScratchBytes" | "maxProjectStorageBytes">;

/** Limits by control groups; agents enforce what those do not cover. */
export class HostLimits implements AppLimits {
  readonly enforcement: Enforcement;
  readonly #found: FoundHierarchy;
  readonly #settings: LimitSettings;
  readonly #full = new Set<string>();

  constructor(found: FoundHierarchy, settings: LimitSettings, level: WallLevel | null) {
    this.#found = found;
    this.#settings = settings;
    this.enforcement = enforcementOf(found, settings, level);
  }

  group(limits: Limits): LimitGroup | null {
    return this.#found.hierarchy?.make(limits) ?? null;
  }

  watched({ memoryBytes }: Limits, { scratch, storage }: WrittenFolders): Watched {
    const { maxScratchBytes, maxProjectStorageBytes } = this.#settings;
    const isLimited = this.#found.hierarchy?.roots.has("memory") ?? false;
    const temporary = scratch.map((path) => ({ name: "scratch", maxBytes: maxScratchBytes, path }) as const);
    return {
      memoryBytes: isLimited ? null : memoryBytes,
      folders:
        storage === null || maxProjectStorageBytes === null
          ? temporary
          : [...temporary, { name: "storage", maxBytes: maxProjectStorageBytes, path: storage }],
      checksStorage: storage !== null && this.#full.has(storage),
    };
  }

  noteStorage(storage: string | null, isFull: boolean | null): void {
    if (storage === null || isFull === null) return;
    if (isFull) this.#full.add(storage);
    else this.#full.delete(storage);
  }

  describeFull(folder: FolderName): string {
    const { maxScratchBytes, maxProjectStorageBytes } = this.#settings;
    return describeFull(folder, folder === "scratch" ? maxScratchBytes : (maxProjectStorageBytes ?? 0));
  }

  async close(): Promise<void> {
    await this.#found.hierarchy?.remove();
  }
}

/** Describes which of its folders an app has filled beyond the settings. */
export function describeFull(folder: FolderName, maxBytes: number): string {
  const most = showSize(maxBytes);
  return folder === "scratch"
    ? `its temporary files took more than ${most}, this service's ${SCRATCH_SETTING}`
    : `the project's storage holds more than ${most}, this service's ${STORAGE_SETTING}: remove some of its files`;
}

function watchedStorage({ maxProjectStorageBytes }: Pick<Settings, "maxProjectStorageBytes">): Enforced {
  return maxProjectStorageBytes === null ? { unset: STORAGE_SETTING } : { by: WATCHER };
}

export function enforcementOf(
  found: FoundHierarchy,
  settings: LimitSettings,
  level: WallLevel | null,
): Enforcement {
  const by = (controller: Controller): Enforced => {
    const lacking = found.lacking.get(controller);
    // The group's files belong to the user of such an app.
    const hasWayOut = level === null || level === "process";
    if (found.hierarchy && lacking === undefined)
      return { by: found.hierarchy.flavour.name + (hasWayOut ? WAY_OUT : "") };
    return { lacking: lacking ?? "there are no control groups", remedy: DELEGATE };
  };
  const memory = by("memory");
  const remedy = "Set MILLRACE_ISOLATION to process or higher";
  const behindWalls = (by: string): Enforced => (level === null ? { lacking: NO_WALLS, remedy } : { by });
  const processes = by("pids");
  // The kernel does not count the processes of root.
  const isCounted = level !== null && process.getuid?.() !== 0;
  return {
    memory: "by" in memory ? memory : { by: WATCHER },
    cpu: by("cpu"),
    processes:
      "by" in processes
        ? { by: `${processes.by}; at most ${MAX_PROCESSES} for a replica` }
        : isCounted
          ? { by: "a limit of 16384 for all processes of the service's user" }
          : processes,
    open_files: behindWalls("a limit of 65536 for each process"),
    scratch: behindWalls(WATCHER),
    storage: watchedStorage(settings),
  };
}

/** Tries which limits this host can enforce, and prepares them. */
export async function findLimits(settings: LimitSettings, level: WallLevel | null): Promise<AppLimits> {
  return new HostLimits(await findHierarchy(settings.dataDir), settings, level);
}

/** What `findLimits` would find, for processes other than the service. */
export async function lookAtLimits(settings: LimitSettings, level: WallLevel | null): Promise<Enforcement> {
  return enforcementOf(await findHierarchy(settings.dataDir, false), settings, level);
}

/** How agents enforce limits on the shared machines of a remote place. */
export function guestEnforcement(
  settings: Pick<Settings, "isolation" | "maxProjectStorageBytes">,
  place: string,
): Enforcement {
  const remedy = "Set MILLRACE_ISOLATION to auto, process or higher";
  const behindWalls = (by: string): Enforced =>
    settings.isolation === "none" ? { lacking: NO_WALLS, remedy } : { by };
  return {
    memory: { by: WATCHER },
    cpu: { lacking: `${place} places apps by what they reserve, and does not enforce it`, remedy: OWN_NODES },
    processes: behindWalls(`a limit of 16384 for all processes of ${place}'s user, unless that is root`),
    open_files: behindWalls("a limit of 65536 for each process"),
    scratch: behindWalls(WATCHER),
    storage: watchedStorage(settings),
  };
}
