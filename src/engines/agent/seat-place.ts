import type { ImageBuilds } from "../build-seats.ts";
import type { Exit, Workload } from "../engine.ts";
import type { Usher } from "../home.ts";

/** Where agents are started: pods, actors, or processes of this machine in tests. */
export type SeatPlace = {
  readonly name: string;
  /** Environments are built there, too; absent where what this machine builds will do. */
  readonly builds?: true;
  /** How images are built there; absent or null where none are. */
  readonly images?: ImageBuilds | null;
  /** Starts an agent for a workload; it calls home with the order's ticket. */
  begin(order: SeatOrder, workload: Workload, events: SeatPlaceEvents): PlacedSeat;
  /** Goes on with a seat that another service has begun; absent where that cannot be. */
  adopt?(seat: AdoptedSeat, workload: Workload, events: SeatPlaceEvents): PlacedSeat;
  /** Its machines are used by strangers too, who trust each other: walls stand around apps, and ports are shared. */
  readonly isShared?: boolean;
  /** Told once, before anything begins: how what it runs for itself reaches this service. */
  openAt?(home: PlaceHome): void;
  /** Takes a connection of what it runs for itself; false if it is nothing to it. */
  readonly usher?: Usher;
  /** No service is left to go on with what dead ones have begun: that is ended, too. Absent where it ends by itself. */
  leaveNothing?(): void;
  /** Ends what it runs for itself, when every seat has been ended. */
  close?(): Promise<void>;
};

/** Where a service is reached by what a place runs for itself. */
export type PlaceHome = Pick<SeatOrder, "authority" | "graceMs"> & {
  /** `host:port`. */
  readonly address: string;
};

/** What an agent is given: nothing of it is worth anything to who reads it later. */
export type SeatOrder = {
  readonly seatId: string;
  /** Where services of the installation take agents: `host:port`, any of them will do. */
  readonly addresses: readonly string[];
  /** The certificate of the installation's authority, as PEM. */
  readonly authority: string;
  /** Good once; it buys the secret of the seat's session. */
  readonly ticket: string;
  /** How long it looks for a service before it ends itself. */
  readonly graceMs: number;
};

/** A seat that another service has begun. */
export type AdoptedSeat = { readonly seatId: string; readonly placeName: string };

export type PlacedSeat = {
  /** The name it has there, for people and for the database: a pod's name. */
  readonly placeName: string;
  /** The image that it runs, by its digest; if nobody tells that, what no other seat has. Absent where places have none. */
  readonly image?: Promise<string>;
  /** When the place has ended, and how: "OOMKilled", "evicted: …", "deleted". */
  readonly exited: Promise<Exit>;
  /** Ends it and everything in it, however often it is asked to; once fenced it may take its time. */
  kill(): void;
  /** Another service has it, or is to have it: nothing of it is ended. */
  letGo?(): void;
  /** Why it has not started yet, for people ("0/2 nodes are available: 2 Insufficient memory"); null for no reason known. */
  obstacle(): string | null;
};

export type SeatPlaceEvents = {
  onPhase(phase: "scheduled" | "pulled", atMs: number): void;
  onError(error: unknown): void;
};
