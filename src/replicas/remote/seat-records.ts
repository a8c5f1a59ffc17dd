/** By what an agent shows that it has a seat. */
type SeatProof = {
  readonly id: string;
  /** SHA-256 of the session's secret. */
  readonly secretHash: Buffer;
  /** How often the seat changed hands. */
  readonly fence: number;
};

/** What the installation knows of a seat elsewhere. */
type SeatRecord = SeatProof & {
  readonly appNumber: number;
  readonly versionId: string;
  /** What it is called where it runs. */
  readonly placeName: string;
};

/** The seats of all services of the installation. */
export type SeatRecords = {
  /** Before the secret is told: a seat of this service. */
  add(record: SeatRecord): Promise<void>;
  /** It has ended, or has been given up: whoever comes back for it is told to end. */
  remove(id: string): Promise<void>;
  /** Where the service is that has that seat, if it is another one and lives; null for a seat that is nobody's. */
  addressOf(proof: SeatProof): Promise<string | null>;
};
