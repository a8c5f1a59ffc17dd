import type { Settings } from "../../config/setting-keys.ts";
import { networkFields, networkVariables } from "../../host/walls/network.ts";
import type { NetworkFields, NetworkWall } from "../../host/walls/network.ts";
import { type StandingWalls, WALL_LEVELS } from "../../host/walls/walls.ts";
import { describeExit, type Exit, type Workload, ended } from "../engine.ts";
import { describeFull } from "../../host/limits/host-limits.ts";
import { describeRunOut, type FolderName, type Limits } from "../../host/limits/limits.ts";

/** What a seat can put around its app, from nothing to the strongest. */
export const SEAT_LEVELS = ["none", "process", "landlock", "userns"] as const;
type SeatLevel = (typeof SEAT_LEVELS)[number];

/** What an agent is to put around its app: the strongest that its machine gives. */
export type AskedWalls = {
  /** The weakest to accept. */
  readonly isolation: Exclude<SeatLevel, "none"> | "auto";
  readonly network: NetworkFields;
  /** The app does not start where its connections cannot be judged. */
  readonly must_judge: boolean;
};

export type GuestWalls = {
  readonly asked: AskedWalls | null;
  /** Variables that its programs need behind them. */
  readonly variables: Readonly<Record<string, string>>;
};

/** Apps must not reach what listens on that machine for the service itself. */
const GUEST: NetworkFields = [["guest", "true"]];

/** Walls for apps on shared machines, by the settings for this machine. Throws if other machines cannot give them. */
export function guestWalls(
  { isolation }: Pick<Settings, "isolation">,
  network: NetworkWall,
  place: string,
): (workload: Workload, ownPort: number) => GuestWalls {
  const oneUser = `on ${place} all apps run as one user: the strongest level there is userns`;
  if (isolation === "uid") throw new Error(`MILLRACE_ISOLATION=uid, but ${oneUser}`);
  if (isolation === "none") return () => ({ asked: null, variables: {} });
  // The agent finds out what its machine can enforce. The file of neighbours is on this one.
  const wall = { ...network, hasWalls: true, gap: null, managementPort: () => 0, neighbours: null };
  return ({ network: wish, server }, ownPort) => {
    const ports = server && ownPort > 0 ? { own: ownPort, declared: server.port } : null;
    const fields = networkFields(wish, wall, ports);
    const isKept = wall.networkUnenforced === "refuse" && fields.some(([, value]) => value === "egress");
    return {
      asked: {
        isolation,
        network: wish === false ? fields : [...fields, ...GUEST],
        must_judge: wish !== false && (isolation !== "auto" || isKept),
      },
      variables: networkVariables(wish, wall),
    };
  };
}

/** What remote seats have reported about their walls. */
export class SeatWallReport {
  /** The weakest so far; null while none has started. */
  weakest: StandingWalls | null = null;
  readonly #onNew: (walls: StandingWalls) => void;
  readonly #told = new Set<string>();

  constructor(onNew: (walls: StandingWalls) => void) {
    this.#onNew = onNew;
  }

  hear(walls: StandingWalls): void {
    if (this.weakest === null || strength(walls) < strength(this.weakest)) this.weakest = walls;
    const key = `${walls.level} ${walls.gap === null}`;
    if (this.#told.has(key)) return;
    this.#told.add(key);
    this.#onNew(walls);
  }
}

function strength({ level, gap }: StandingWalls): number {
  const index = level === "none" ? -1 : WALL_LEVELS.indexOf(level);
  return 2 * index + (gap === null ? 1 : 0);
}

/** The most that each may hold, in bytes; null for as much as there is. */
export type FolderLimits = Readonly<Record<FolderName, number | null>>;

/** What an agent limits: the folders, and the memory of each replica. */
export type AskedLimits = FolderLimits & { readonly memory: number | null };

export type ToldEnd = {
  readonly code: number;
  readonly isOutOfMemory: boolean;
  /** The folder that was too full, so that the agent has ended the seat. */
  readonly full: FolderName | null;
};

/** The operator's limits for the disks of shared machines. */
export function folderLimits({
  maxScratchBytes: scratch,
  maxProjectStorageBytes: storage,
}: Pick<Settings, "maxScratchBytes" | "maxProjectStorageBytes">): FolderLimits {
  return { scratch, storage };
}

/** The limits of an app in that seat; null where its place enforces them. */
export function askedLimits({ memoryBytes }: Limits, folders: FolderLimits | undefined): AskedLimits | null {
  return folders ? { memory: memoryBytes, ...folders } : null;
}

/** Why it ended, in the words of this machine. A folder without a limit is no reason. */
export function endOfSeat(
  { code, isOutOfMemory, full }: ToldEnd,
  limits: Limits,
  folders?: FolderLimits,
): Exit {
  const most = full && folders?.[full];
  if (full && most) return ended(describeFull(full, most));
  if (isOutOfMemory) return { ...ended(describeRunOut(limits)), isOutOfMemory };
  return ended(describeExit(code, null));
}
