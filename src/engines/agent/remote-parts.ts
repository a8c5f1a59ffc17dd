import type { StandingWalls } from "../../host/walls/standing-walls.ts";
import type { Workload } from "../engine.ts";
import type { FolderLimits } from "./seat-limits.ts";
import type { SeatListener } from "./seat-listener.ts";
import type { SeatPlace } from "./seat-place.ts";
import type { GuestWalls } from "./seat-walls.ts";

/** The phases of a start, each told once, with the milliseconds since it was asked for. */
export type SeatStartPhase = "scheduled" | "pulled" | "connected" | "fetched" | "started" | "imported";

/** What seats elsewhere are made with. */
export type RemoteParts = {
  readonly place: SeatPlace;
  readonly listener: SeatListener;
  /** How many replicas of a version share a seat; absent for one. */
  readonly replicasPerSeat?: number;
  /** Where agents reach services: this one first. */
  readonly addresses: () => readonly string[];
  /** How long an agent without a service looks for one, and how long a service waits for it. */
  readonly graceMs: number;
  /** Where places have a project's storage. */
  readonly storage: string;
  /** What apps get on machines that strangers use too; `ownPort` is that of a server, else 0. Absent for no such place. */
  readonly walls?: (workload: Workload, ownPort: number) => GuestWalls;
  /** What the folders of apps may hold there; absent for no such place, which holds them to something itself. */
  readonly folders?: FolderLimits;
  readonly onPhase?: (phase: SeatStartPhase, ms: number) => void;
  readonly onWalls?: (walls: StandingWalls) => void;
  /** Whether what is ended now is left to the next service, which starts within the grace; absent for never. */
  readonly isLeft?: () => boolean;
};
