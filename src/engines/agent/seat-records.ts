/** By what an agent shows that it has a seat. */
export type SeatProof = {
  readonly id: string;
  /** SHA-256 of the session's secret. */
  readonly secretHash: Buffer;
  /** How often the seat changed hands. */
  readonly fence: number;
};

/** What is to run in a seat, for whoever looks for one that runs exactly that. */
export type SeatWish = { readonly appNumber: number; readonly versionId: string; readonly workload: Buffer };

/** What the installation knows of a seat elsewhere. */
type SeatRecord = SeatProof &
  Pick<SeatWish, "appNumber" | "versionId"> & {
    /** Marks what runs in it; null for one that no other service can take over. */
    readonly workload: Buffer | null;
    /** What it is called where it runs. */
    readonly placeName: string;
  };

/** A seat of a service that is gone, which is this service's from now on. */
export type ClaimedSeat = SeatProof & Pick<SeatRecord, "placeName">;

/** Where an agent that is not ours belongs. */
export type Whereabouts =
  /** To another service, at this address. */
  | { readonly kind: "elsewhere"; readonly address: string }
  /** To nobody: it has been given up. */
  | { readonly kind: "nowhere" }
  /** To a service that is gone, and perhaps soon to another. */
  | { readonly kind: "open" };

/** The seats of all services of the installation. */
export type SeatRecords = {
  /** The same for the same content, always; it tells nobody what that is. */
  mark(content: string): Buffer;
  /** Before the secret is told: a seat of this service. */
  add(record: SeatRecord): Promise<void>;
  /** It has ended, or has been given up: whoever comes back for it is told to end. False: it is another service's by now. */
  remove(seat: Pick<SeatProof, "id" | "fence">): Promise<boolean>;
  /** Takes over a seat that runs exactly that, whose service is gone; null if there is none. */
  claim(wish: SeatWish): Promise<ClaimedSeat | null>;
  /** Where an agent belongs that shows this. */
  find(proof: SeatProof): Promise<Whereabouts>;
};
