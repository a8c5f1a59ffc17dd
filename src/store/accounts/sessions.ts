import type { Row } from "../schema/schema.ts";
import { noteChange } from "../nodes/changes.ts";
import type { Membership } from "./memberships.ts";
import { read, write } from "../operation.ts";

/** Somebody signed in somewhere. Of its refresh token only hashes are kept. */
export type PersonSession = Row<"sessions">;

/** A session with what its person may do. */
type LiveSession = {
  readonly session: Pick<PersonSession, "id" | "personId" | "expiresAt">;
  readonly email: string;
  readonly memberships: readonly Pick<Membership, "projectId" | "role">[];
};

type Refresh = Pick<PersonSession, "kind"> & {
  readonly familyHash: Uint8Array;
  readonly secretHash: Uint8Array;
  /** Null: the token stays as it is. */
  readonly nextHash: Uint8Array | null;
  readonly now: number;
  readonly expiresAt: number;
  /** So long the token before the last is taken for one that crossed it on the way. */
  readonly graceMs: number;
};

/** `again`: the token before the last, in time. `reused`: an older one, and the session has been ended. */
type Refreshed =
  | { readonly result: "fresh" | "again" | "reused"; readonly id: string; readonly personId: string }
  | { readonly result: "unknown" };

/** Sessions of people. Those that have ended are gone. */
export const sessions = {
  insert: write(async ({ db }, session: Omit<PersonSession, "previousHash">): Promise<void> => {
    // Here, so that the table stays small without anybody looking after it.
    await db.deleteFrom("sessions").where("expiresAt", "<=", session.createdAt).execute();
    await db.insertInto("sessions").values(session).execute();
  }),

  /** The session, its person and their memberships; whether it has expired is for the caller to judge. */
  find: read(async ({ db }, id: string): Promise<LiveSession | null> => {
    const rows = await db
      .selectFrom("sessions")
      .innerJoin("people", "people.id", "sessions.personId")
      .leftJoin("memberships", "memberships.personId", "sessions.personId")
      .select(["sessions.id", "sessions.personId", "sessions.expiresAt", "people.email"])
      .select(["memberships.projectId", "memberships.role"])
      .where("sessions.id", "=", id)
      .execute();
    const [first] = rows;
    if (!first) return null;
    const { personId, expiresAt, email } = first;
    const memberships = rows.flatMap(({ projectId, role }) =>
      projectId !== null && role !== null ? [{ projectId, role }] : [],
    );
    return { session: { id, personId, expiresAt }, email, memberships };
  }),

  /** Takes a refresh token for the next one; an old one ends its session, since two hold it. */
  refresh: write(async (session, input: Refresh): Promise<Refreshed> => {
    const { db } = session;
    const { kind, familyHash, secretHash, nextHash, now, expiresAt, graceMs } = input;
    // One conditional statement: if two come at the same moment, one of them finds the hash gone.
    const fresh = await db
      .updateTable("sessions")
      .set({
        refreshedAt: now,
        expiresAt,
        ...(nextHash && { secretHash: nextHash, previousHash: secretHash }),
      })
      .where("familyHash", "=", familyHash)
      .where("kind", "=", kind)
      .where("secretHash", "=", secretHash)
      .where("expiresAt", ">", now)
      .returning(["id", "personId"])
      .executeTakeFirst();
    if (fresh) return { result: "fresh", ...fresh };
    const known = await db
      .selectFrom("sessions")
      .select(["id", "personId", "previousHash", "refreshedAt", "expiresAt"])
      .where("familyHash", "=", familyHash)
      .where("kind", "=", kind)
      .executeTakeFirst();
    if (!known || known.expiresAt <= now) return { result: "unknown" };
    const { id, personId, previousHash, refreshedAt } = known;
    const isPrevious = previousHash !== null && Buffer.from(previousHash).equals(secretHash);
    if (isPrevious && now - refreshedAt <= graceMs) return { result: "again", id, personId };
    await db.deleteFrom("sessions").where("id", "=", id).execute();
    await noteChange(session, "person", personId);
    return { result: "reused", id, personId };
  }),

  /** Those of a person that have not expired, newest first. */
  list: read(
    async (
      { db },
      { personId, now }: { readonly personId: string; readonly now: number },
    ): Promise<PersonSession[]> =>
      await db
        .selectFrom("sessions")
        .selectAll()
        .where("personId", "=", personId)
        .where("expiresAt", ">", now)
        .orderBy("createdAt", "desc")
        .orderBy("id", "desc")
        .execute(),
  ),

  /** False when the person has no such session. */
  end: write(
    async (
      session,
      { id, personId }: { readonly id: string; readonly personId: string },
    ): Promise<boolean> => {
      const result = await session.db
        .deleteFrom("sessions")
        .where("id", "=", id)
        .where("personId", "=", personId)
        .executeTakeFirst();
      if (result.numDeletedRows !== 1n) return false;
      await noteChange(session, "person", personId);
      return true;
    },
  ),

  /** Ends the session that a refresh token belongs to; null when there is none. */
  endByFamily: write(
    async (session, familyHash: Uint8Array): Promise<Pick<PersonSession, "id" | "personId"> | null> => {
      const ended = await session.db
        .deleteFrom("sessions")
        .where("familyHash", "=", familyHash)
        .returning(["id", "personId"])
        .executeTakeFirst();
      if (!ended) return null;
      await noteChange(session, "person", ended.personId);
      return ended;
    },
  ),

  /** Ends all sessions of a person but one. */
  endOthers: write(
    async (
      session,
      { personId, keptId }: { readonly personId: string; readonly keptId: string | null },
    ): Promise<void> => {
      await session.db
        .deleteFrom("sessions")
        .where("personId", "=", personId)
        .$if(keptId !== null, (query) => query.where("id", "<>", keptId))
        .execute();
      await noteChange(session, "person", personId);
    },
  ),
};

/** A command line's wish to be signed in; of its two codes only hashes are kept. */
type DeviceCode = Row<"deviceCodes">;

/** Codes by which a command line asks for a session. */
export const deviceCodes = {
  insert: write(async ({ db }, code: Omit<DeviceCode, "personId">): Promise<void> => {
    // Here, so that the table stays small without anybody looking after it.
    await db.deleteFrom("deviceCodes").where("expiresAt", "<=", code.createdAt).execute();
    await db.insertInto("deviceCodes").values(code).execute();
  }),

  find: read(async ({ db }, deviceHash: Uint8Array): Promise<DeviceCode | null> => {
    const row = await db
      .selectFrom("deviceCodes")
      .selectAll()
      .where("deviceHash", "=", deviceHash)
      .executeTakeFirst();
    return row ?? null;
  }),

  /** False when no such code waits for somebody. */
  approve: write(
    async (
      { db },
      input: { readonly userHash: Uint8Array; readonly personId: string; readonly now: number },
    ): Promise<boolean> => {
      const result = await db
        .updateTable("deviceCodes")
        .set({ personId: input.personId })
        .where("userHash", "=", input.userHash)
        .where("personId", "is", null)
        .where("expiresAt", ">", input.now)
        .executeTakeFirst();
      return result.numUpdatedRows === 1n;
    },
  ),

  /** Who approved the code, told once; null when nobody did, or it has been told. */
  take: write(
    async (
      { db },
      { deviceHash, now }: { readonly deviceHash: Uint8Array; readonly now: number },
    ): Promise<string | null> => {
      const taken = await db
        .deleteFrom("deviceCodes")
        .where("deviceHash", "=", deviceHash)
        .where("personId", "is not", null)
        .where("expiresAt", ">", now)
        .returning("personId")
        .executeTakeFirst();
      return taken?.personId ?? null;
    },
  ),
};
