import { all } from "../queries.ts";
import { uuidBytes } from "../../kit/ids.ts";
import { type AppHolder, holdsApp } from "./app-owners.ts";
import { isAlive } from "./nodes.ts";
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
type SeatRequest = Pick<SeatRow, "appNumber" | "versionId"> & {
  readonly workload: Uint8Array;
  /** Only the node that owns the app gets a seat. */
  readonly holder: AppHolder;
  /** Services that are dead, whatever their leases say. */
  readonly dead: readonly string[];
  /** Whether other services with an expired lease count as dead. */
  readonly mayJudge: boolean;
};

type ClaimedRow = Pick<SeatRow, "id" | "placeName" | "secretHash" | "fence">;

/** The owner of a seat, and whether it is alive. */
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
  remove: write(
    async ({ db }, { id, owner, fence }: Pick<SeatRow, "id" | "owner" | "fence">): Promise<boolean> => {
      await db.deleteFrom("seats").where(all({ id, owner, fence })).execute();
      const row = await db.selectFrom("seats").select("id").where("id", "=", id).executeTakeFirst();
      return row === undefined;
    },
  ),

  /** Takes over a seat with the same workload whose service is dead; null if there is none. Only one service gets it. */
  claim: write(async (session, request: SeatRequest): Promise<ClaimedRow | null> => {
    const { db } = session;
    const { appNumber, versionId, workload, holder, dead, mayJudge } = request;
    if (!(await holdsApp(session, appNumber, holder))) return null;
    const found = await db
      .selectFrom("seats")
      .select("id")
      .where(all({ appNumber, versionId: uuidBytes(versionId), workload }))
      .where((eb) =>
        eb.or([
          // The service has left, or was found dead.
          eb("seats.owner", "not in", eb.selectFrom("owners").select("owners.id")),
          ...(dead.length > 0 ? [eb("seats.owner", "in", dead)] : []),
          ...(mayJudge ? [eb.not(isAlive(session, eb.ref("seats.owner")))] : []),
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
  find: read(
    async (session, { id, secretHash }: Pick<SeatRow, "id" | "secretHash">): Promise<SeatHolder | null> => {
      const row = await session.db
        .selectFrom("seats")
        .select((eb) => ["owner", "fence", isAlive(session, eb.ref("seats.owner")).as("isAlive")])
        .where(all({ id, secretHash }))
        .executeTakeFirst();
      return row ? { ...row, isAlive: Boolean(row.isAlive) } : null;
    },
  ),

  /** Those of the seats that have an owner or may still be taken over. */
  known: read(async ({ db }, ids: readonly string[]): Promise<string[]> => {
    if (ids.length === 0) return [];
    const rows = await db.selectFrom("seats").select("id").where("id", "in", ids).execute();
    return rows.map(({ id }) => id);
  }),

  /** Removes seats that no service took over in time: their agents have ended, or will be told to. */
  removeDead: write(async (session): Promise<number> => {
    const { db, sql, databaseNow } = session;
    await db
      .updateTable("seats")
      .set((eb) => ({
        lostAt: sql<number | null>`case when ${isAlive(session, eb.ref("seats.owner"))} then null
          else coalesce(lost_at, ${databaseNow}) end`,
      }))
      .where((eb) => eb.or([eb("lostAt", "is not", null), eb.not(isAlive(session, eb.ref("seats.owner")))]))
      .execute();
    const { numDeletedRows } = await db
      .deleteFrom("seats")
      .where("lostAt", "<", sql<number>`${databaseNow} - ${ADOPTION_MS}`)
      .executeTakeFirst();
    return Number(numDeletedRows);
  }),
};
