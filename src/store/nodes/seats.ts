import { all, firstOf } from "../queries.ts";
import { uuidBytes } from "../../kit/ids.ts";
import { type AppHolder, holdsApp } from "./app-owners.ts";
import { isAlive, isDead, type Judgement } from "./nodes.ts";
import { read, write } from "../operation.ts";

/** A service's seat on another machine. */
export type SeatRow = {
  readonly id: string;
  readonly appNumber: number;
  readonly versionId: string;
  /** Its name where it runs. */
  readonly placeName: string;
  /** SHA-256 of its agent's secret. */
  readonly secretHash: Uint8Array;
  /** How often it changed hands. */
  readonly fence: number;
  /** The service that it belongs to. */
  readonly owner: string;
  /** Identifies what runs in it; null for a seat that no other service can take over. */
  readonly workload: Uint8Array | null;
};

/** A service's request for a seat. */
type SeatRequest = Judgement &
  Pick<SeatRow, "appNumber" | "versionId"> & {
    readonly workload: Uint8Array;
    /** Only the node that owns the app gets a seat. */
    readonly holder: AppHolder;
  };

type OwnedSeat = Pick<SeatRow, "id" | "owner" | "fence">;
type SeatSecret = Pick<SeatRow, "id" | "secretHash">;
type ClaimedRow = Pick<SeatRow, "id" | "placeName" | "secretHash" | "fence">;

type SeatHolder = Pick<SeatRow, "owner" | "fence"> & { readonly isAlive: boolean };

/** How long a seat may be taken over after its service was found dead. Its agent looks for a service for less long. */
const ADOPTION_MS = 45_000;

/** Seats on other machines. */
export const seats = {
  /** May be repeated with another secret, if it is unknown whether the first was stored. */
  add: write(async ({ db, databaseNow }, { versionId, ...row }: SeatRow): Promise<void> => {
    await db
      .insertInto("seats")
      .values({ ...row, versionId: uuidBytes(versionId), createdAt: databaseNow })
      .onConflict((conflict) => conflict.column("id").doUpdateSet({ secretHash: row.secretHash }))
      .execute();
  }),

  /** Removes a seat of that service; false if another service has taken it over. */
  remove: write(async ({ db }, { id, owner, fence }: OwnedSeat): Promise<boolean> => {
    await db.deleteFrom("seats").where(all({ id, owner, fence })).execute();
    return (await firstOf(db.selectFrom("seats").select("id").where("id", "=", id))) === null;
  }),

  /** Takes over a seat with the same workload whose service is dead; null if there is none. Only one service gets it. */
  claim: write(async (session, request: SeatRequest): Promise<ClaimedRow | null> => {
    const { db } = session;
    const { appNumber, versionId, workload, holder } = request;
    if (!(await holdsApp(session, appNumber, holder))) return null;
    const found = await db
      .selectFrom("seats")
      .select("id")
      .where(all({ appNumber, versionId: uuidBytes(versionId), workload }))
      .where((eb) =>
        eb.or([
          // The service has left, or was found dead.
          eb("seats.owner", "not in", eb.selectFrom("owners").select("owners.id")),
          isDead(session, "seats.owner", request),
        ]),
      )
      .orderBy("createdAt", "desc")
      .limit(1)
      .modifyEnd(session.skipLocked("seats"))
      .executeTakeFirst();
    if (!found) return null;
    return await db
      .updateTable("seats")
      .set((eb) => ({ owner: holder.owner, fence: eb("fence", "+", 1), lostAt: null }))
      .where("id", "=", found.id)
      .returning(["id", "placeName", "secretHash", "fence"])
      .executeTakeFirstOrThrow();
  }),

  /** The owner of the seat with that secret; null if there is none. */
  find: read(async (session, { id, secretHash }: SeatSecret): Promise<SeatHolder | null> => {
    const isOwnerAlive = isAlive(session, session.sql.ref("seats.owner")).as("isAlive");
    const seat = session.db.selectFrom("seats").where(all({ id, secretHash }));
    const row = await firstOf(seat.select(["owner", "fence", isOwnerAlive]));
    return row && { ...row, isAlive: Boolean(row.isAlive) };
  }),

  /** Those of the seats that have an owner or may still be taken over. */
  known: read(async ({ db }, ids: readonly string[]): Promise<string[]> => {
    if (ids.length === 0) return [];
    const rows = await db.selectFrom("seats").select("id").where("id", "in", ids).execute();
    return rows.map(({ id }) => id);
  }),

  /** Removes seats that no service took over in time: their agents have ended, or will be stopped. */
  removeDead: write(async (session): Promise<number> => {
    const { db, sql, databaseNow } = session;
    const isOwnerAlive = isAlive(session, sql.ref("seats.owner"));
    await sql`
      update seats set lost_at = case when ${isOwnerAlive} then null else coalesce(lost_at, ${databaseNow}) end
      where lost_at is not null or not ${isOwnerAlive}
    `.execute(db);
    const { numAffectedRows } = await sql`
      delete from seats where lost_at < ${databaseNow} - ${sql.lit(ADOPTION_MS)}
    `.execute(db);
    return Number(numAffectedRows);
  }),
};
