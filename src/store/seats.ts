import { uuidBytes } from "../kit/ids.ts";
import { isAlive } from "./leases.ts";
import { read, write } from "./operation.ts";

/** A seat on another machine that a service has. */
export type SeatRow = {
  readonly id: string;
  readonly appNumber: number;
  readonly versionId: string;
  /** What it is called where it runs. */
  readonly placeName: string;
  /** SHA-256 of what its agent shows. */
  readonly secretHash: Uint8Array;
  /** How often it changed hands. */
  readonly fence: number;
  /** The service that it belongs to. */
  readonly owner: string;
};

/** By what a seat is found again. */
type SeatProof = Pick<SeatRow, "id" | "secretHash" | "fence">;

/** Seats on other machines. */
export const seats = {
  /** Once more with another secret, if it was in doubt whether the first was stored. */
  add: write(async ({ db, databaseNow }, { versionId, ...row }: SeatRow): Promise<void> => {
    await db
      .insertInto("seats")
      .values({ ...row, versionId: uuidBytes(versionId), createdAt: databaseNow })
      .onConflict((conflict) => conflict.column("id").doUpdateSet({ secretHash: row.secretHash }))
      .execute();
  }),

  remove: write(async ({ db }, id: string): Promise<void> => {
    await db.deleteFrom("seats").where("id", "=", id).execute();
  }),

  /** The service that has that seat, whose lease stands; null for a seat that is nobody's. */
  owner: read(async (session, { id, secretHash, fence }: SeatProof): Promise<string | null> => {
    const row = await session.db
      .selectFrom("seats")
      .select("owner")
      .where("id", "=", id)
      .where("secretHash", "=", secretHash)
      .where("fence", "=", fence)
      .where((eb) => isAlive(session, eb.ref("seats.owner")))
      .executeTakeFirst();
    return row?.owner ?? null;
  }),

  /** Forgets those of services whose lease has passed: their agents are told to end. */
  removeDead: write(async (session): Promise<number> => {
    const { numDeletedRows } = await session.db
      .deleteFrom("seats")
      .where((eb) => eb.not(isAlive(session, eb.ref("seats.owner"))))
      .executeTakeFirst();
    return Number(numDeletedRows);
  }),
};
