/** How an agent proves that it has a seat. */
export type SeatProof = {
  readonly id: string;
  readonly secretHash: Buffer;
  /** How often the seat changed hands. */
  readonly fence: number;
};

/** A search for a seat that runs exactly this. */
export type SeatWish = { readonly appNumber: number; readonly versionId: string; readonly workload: Buffer };

/** What the installation stores about a remote seat. */
type SeatRecord = SeatProof &
  Pick<SeatWish, "appNumber" | "versionId"> & {
    /** Marks what runs in it; null for one that no other service can take over. */
    readonly workload: Buffer | null;
    readonly placeName: string;
  };

/** A seat of a service that is gone, which is this service's from now on. */
export type ClaimedSeat = SeatProof & Pick<SeatRecord, "placeName">;

/** Where an agent that is not ours belongs. */
export type Whereabouts =
  /** To another service, at this address. */
  | { readonly kind: "elsewhere"; readonly address: string }
  /** To no service: it has been given up. */
  | { readonly kind: "nowhere" }
  /** To a dead service, and perhaps soon to another. */
  | { readonly kind: "open" };

export type SeatRecords = {
  /** Equal for equal content, without revealing the content. */
  mark(content: string): Buffer;
  /** Stores a seat of this service, before the agent gets its secret. */
  add(record: SeatRecord): Promise<void>;
  /** Removes a seat, so that an agent that comes back for it ends. False if another service has it by now. */
  remove(seat: Pick<SeatProof, "id" | "fence">): Promise<boolean>;
  /** Takes over a seat that runs exactly that, whose service is gone; null if there is none. */
  claim(wish: SeatWish): Promise<ClaimedSeat | null>;
  /** Where the agent with this proof belongs. */
  find(proof: SeatProof): Promise<Whereabouts>;
};
