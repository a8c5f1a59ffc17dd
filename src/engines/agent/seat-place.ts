import type { ImageBuilds } from "../build-seats.ts";
import type { Exit, Workload } from "../engine.ts";
import type { Usher } from "../home.ts";

/** Starts agents: as pods, as actors, or in tests as processes of this machine. */
export type SeatPlace = {
  readonly name: string;
  /** Environments are built there too; absent if those of this machine fit. */
  readonly builds?: true;
  /** How images are built there; absent or null where none are. */
  readonly images?: ImageBuilds | null;
  /** Starts an agent for a workload; it calls home with the order's ticket. */
  begin(order: SeatOrder, workload: Workload, events: SeatPlaceEvents): PlacedSeat;
  /** Continues a seat that another service began; absent if that is impossible. */
  adopt?(seat: AdoptedSeat, workload: Workload, events: SeatPlaceEvents): PlacedSeat;
  /** Apps share its machines: they need walls, and share the ports. */
  readonly isShared?: boolean;
  /** Called once, before the first seat: how the place's own supervisor reaches this service. */
  openAt?(home: PlaceHome): void;
  /** Takes a connection of its own supervisor; returns false for any other. */
  readonly usher?: Usher;
  /** Also ends the seats of dead services, as no service is left to continue them. Absent if they end by themselves. */
  leaveNothing?(): void;
  /** Ends its own supervisor, after all seats. */
  close?(): Promise<void>;
};

/** Where a place's own supervisor reaches a service. */
export type PlaceHome = Pick<SeatOrder, "authority" | "graceMs"> & {
  /** `host:port`. */
  readonly address: string;
};

/** The start order of an agent. It is worthless to anyone who reads it later. */
export type SeatOrder = {
  readonly seatId: string;
  /** Where services of the installation accept agents: `host:port`, any of them will do. */
  readonly addresses: readonly string[];
  readonly authority: string;
  /** Good once; it buys the secret of the seat's session. */
  readonly ticket: string;
  /** How long it looks for a service before it ends itself. */
  readonly graceMs: number;
};

/** A seat that another service has begun. */
export type AdoptedSeat = { readonly seatId: string; readonly placeName: string };

export type PlacedSeat = {
  /** Its name there, for people and the database, such as a pod's name. */
  readonly placeName: string;
  /** Its image by digest, or a unique text if the digest is unknown. Absent if places have no images. */
  readonly image?: Promise<string>;
  /** How the place ended: "OOMKilled", "evicted: …", "deleted". */
  readonly exited: Promise<Exit>;
  /** Ends it and everything in it. Idempotent. */
  kill(): void;
  /** Another service has it, or will: it continues. */
  letGo?(): void;
  /** Why it has not started yet, for people ("0/2 nodes are available: 2 Insufficient memory"); null for no reason known. */
  obstacle(): string | null;
};

export type SeatPlaceEvents = {
  onPhase(phase: "scheduled" | "pulled", atMs: number): void;
  onError(error: unknown): void;
};
