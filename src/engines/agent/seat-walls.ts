import type { Settings } from "../../config/setting-keys.ts";
import { networkFields, networkVariables } from "../../host/walls/network.ts";
import type { NetworkFields, NetworkWall } from "../../host/walls/network.ts";
import { type StandingWalls, WALL_LEVELS } from "../../host/walls/walls.ts";
import { describeExit, type Exit, type Workload, ended } from "../engine.ts";
import { describeFull } from "../../host/limits/host-limits.ts";
import { describeRunOut, type Limits } from "../../host/limits/limits.ts";
import type { FolderName } from "./agent-messages.ts";

/** What a seat can put around its app, from nothing to the strongest. */
export const SEAT_LEVELS = ["none", "process", "landlock", "userns"] as const;
type SeatLevel = (typeof SEAT_LEVELS)[number];

/** What an agent is to put around its app: the strongest that its machine gives. */
export type AskedWalls = {
  /** The weakest to accept. */
  readonly isolation: Exclude<SeatLevel, "none"> | "auto";
  /** What the agent is told of the app's network. */
  readonly network: NetworkFields;
  /** The app does not start where its connections cannot be judged. */
  readonly must_judge: boolean;
};

/** What an app gets on a machine that strangers use too. */
export type GuestWalls = {
  /** Null for nothing. */
  readonly asked: AskedWalls | null;
  /** Variables that its programs need behind them. */
  readonly variables: Readonly<Record<string, string>>;
};

/** Nobody says so: what listens there for the service itself is none of the app's. */
const GUEST: NetworkFields = [["guest", "true"]];

/**
 * Walls for apps on machines that strangers use too, by the settings that count on this machine. Throws if those ask for
 * what no other machine can give.
 */
export function guestWalls(
  { isolation }: Pick<Settings, "isolation">,
  network: NetworkWall,
  place: string,
): (workload: Workload, ownPort: number) => GuestWalls {
  if (isolation === "uid")
    throw new Error(
      `MILLRACE_ISOLATION=uid, but on ${place} all apps run as one user: the strongest level there is userns`,
    );
  if (isolation === "none") return () => ({ asked: null, variables: {} });
  // What that machine can do is found out there; the file is on this one.
  const elsewhere = { managementPort: () => 0, neighbours: null };
  const wall: NetworkWall = { ...network, hasWalls: true, gap: null, ...elsewhere };
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

/** What deploys go by where seats raise walls: each says itself what its machine cannot hold an app to. */
export function heldElsewhere(network: NetworkWall, { isolation }: Pick<Settings, "isolation">): NetworkWall {
  return isolation === "none" ? network : { ...network, hasWalls: true, gap: null };
}

/** What seats elsewhere have said of their walls. */
export class SeatWallReport {
  #weakest: StandingWalls | null = null;
  readonly #onNew: (walls: StandingWalls) => void;
  readonly #told = new Set<string>();

  constructor(onNew: (walls: StandingWalls) => void) {
    this.#onNew = onNew;
  }

  /** The weakest so far; null while none has started. */
  get weakest(): StandingWalls | null {
    return this.#weakest;
  }

  hear(walls: StandingWalls): void {
    if (this.#weakest === null || strength(walls) < strength(this.#weakest)) this.#weakest = walls;
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

/** What an agent holds its app to: those, and the memory of each replica. */
export type AskedLimits = FolderLimits & { readonly memory: number | null };

/** How all of a seat has ended, as its agent tells it. */
export type ToldEnd = {
  readonly code: number;
  readonly isOutOfMemory: boolean;
  /** The folder that held too much, so that the agent has ended it. */
  readonly full: FolderName | null;
};

/** What the operator says of the disks of machines that strangers use too. */
export function folderLimits(
  settings: Pick<Settings, "maxScratchBytes" | "maxProjectStorageBytes">,
): FolderLimits {
  return { scratch: settings.maxScratchBytes, storage: settings.maxProjectStorageBytes };
}

/** What an app in that seat is held to; null where its place does that. */
export function askedLimits({ memoryBytes }: Limits, folders: FolderLimits | undefined): AskedLimits | null {
  return folders ? { memory: memoryBytes, ...folders } : null;
}

/** Why it ended, in the words that it has on this machine. A folder that nobody limits is no reason. */
export function endOfSeat(
  { code, isOutOfMemory, full }: ToldEnd,
  limits: Limits,
  folders?: FolderLimits,
): Exit {
  const most = full && folders?.[full];
  if (full && most) return ended(describeFull(full, most));
  if (isOutOfMemory) return { detail: describeRunOut(limits), initFailure: null, isOutOfMemory };
  return ended(describeExit(code, null));
}
