import { uuidBytes } from "../../kit/ids.ts";
import { holdsApp } from "./app-owners.ts";
import type { AppHolder } from "./app-owners.ts";
import { isAlive } from "./nodes.ts";
import { read, write } from "../operation.ts";

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
  /** Marks what runs in it; null for a seat that no other service can take over. */
  readonly workload: Uint8Array | null;
};

/** What a service wants a seat for. */
type SeatWish = Pick<SeatRow, "appNumber" | "versionId"> & {
  readonly workload: Uint8Array;
  /** As whom it wants it: only the node that has the app gets one. */
  readonly holder: AppHolder;
  /** Services that are dead, whatever their leases say. */
  readonly dead: readonly string[];
  /** Whether others are dead whose lease has passed. */
  readonly mayJudge: boolean;
};

type ClaimedRow = Pick<SeatRow, "id" | "placeName" | "secretHash" | "fence">;

/** Who has a seat, and whether that service lives. */
type SeatHolder = Pick<SeatRow, "owner" | "fence"> & { readonly isAlive: boolean };

/** How long a seat may be taken over once its service is known to be gone; its agent does not look for one as long. */
const ADOPTION_MS = 45_000;

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

  /** Forgets a seat of that service; false if another has taken it over. */
  remove: write(
    async ({ db }, { id, owner, fence }: Pick<SeatRow, "id" | "owner" | "fence">): Promise<boolean> => {
      await db
        .deleteFrom("seats")
        .where("id", "=", id)
        .where("owner", "=", owner)
        .where("fence", "=", fence)
        .execute();
      const row = await db.selectFrom("seats").select("id").where("id", "=", id).executeTakeFirst();
      return row === undefined;
    },
  ),

  /** Takes over a seat that runs exactly that, whose service is gone; null if there is none. One service gets it. */
  claim: write(async (session, wish: SeatWish): Promise<ClaimedRow | null> => {
    const { db } = session;
    const { appNumber, versionId, workload, holder, dead, mayJudge } = wish;
    if (!(await holdsApp(session, appNumber, holder))) return null;
    const found = await db
      .selectFrom("seats")
      .select("id")
      .where("appNumber", "=", appNumber)
      .where("versionId", "=", uuidBytes(versionId))
      .where("workload", "=", workload)
      .where((eb) =>
        eb.or([
          // It has left, or was found dead.
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

  /** Who has the seat whose secret hashes to that; null for a seat that is nobody's. */
  find: read(
    async (session, { id, secretHash }: Pick<SeatRow, "id" | "secretHash">): Promise<SeatHolder | null> => {
      const row = await session.db
        .selectFrom("seats")
        .select((eb) => ["owner", "fence", isAlive(session, eb.ref("seats.owner")).as("isAlive")])
        .where("id", "=", id)
        .where("secretHash", "=", secretHash)
        .executeTakeFirst();
      return row ? { ...row, isAlive: Boolean(row.isAlive) } : null;
    },
  ),

  /** Which of those anybody has, or may still take over. */
  known: read(async ({ db }, ids: readonly string[]): Promise<string[]> => {
    if (ids.length === 0) return [];
    const rows = await db.selectFrom("seats").select("id").where("id", "in", ids).execute();
    return rows.map(({ id }) => id);
  }),

  /** Forgets those that nobody has taken over in time: their agents have ended, or are told to. */
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
