import { isNoted, noteChange } from "../nodes/changes.ts";
import { read, type Row, write } from "../operation.ts";
import { all, firstOf, isDone } from "../queries.ts";
import type { Membership } from "./memberships.ts";

/** A person's session. Of its refresh token, only hashes are stored. */
export type PersonSession = Row<"sessions">;

/** A session with its person's rights. */
export type LiveSession = {
  readonly session: Pick<PersonSession, "id" | "personId" | "expiresAt">;
  readonly email: string;
  readonly memberships: readonly Pick<Membership, "projectId" | "role">[];
};

export type Refresh = Pick<PersonSession, "kind" | "familyHash" | "secretHash" | "expiresAt"> & {
  /** Null: the token stays the same. */
  readonly nextHash: Uint8Array | null;
  readonly now: number;
  /** How long the previous token is accepted: two requests may have crossed. */
  readonly graceMs: number;
};

/** `again`: the previous token, in time. `reused`: an older one, which ended the session. */
export type Refreshed =
  | { readonly result: "fresh" | "again" | "reused"; readonly id: string; readonly personId: string }
  | { readonly result: "unknown" };

type SessionKey = Pick<PersonSession, "id" | "personId">;
type OtherSessions = { readonly personId: string; readonly keptId: string | null };

/** Sessions of people. A session that has ended is deleted. */
export const sessions = {
  insert: write(async ({ db }, session: Omit<PersonSession, "previousHash">): Promise<void> => {
    // Keeps the table small.
    await db.deleteFrom("sessions").where("expiresAt", "<=", session.createdAt).execute();
    await db.insertInto("sessions").values(session).execute();
  }),

  /** The session, its person and their memberships. The caller decides whether it has expired. */
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

  /** Replaces a refresh token with the next one. An old token ends its session, because two parties have it. */
  refresh: write(async (session, input: Refresh): Promise<Refreshed> => {
    const { db } = session;
    const { kind, familyHash, secretHash, nextHash, now, expiresAt, graceMs } = input;
    // One conditional statement: if two requests come at the same moment, one of them does not find the hash.
    const renewal = nextHash && { secretHash: nextHash, previousHash: secretHash };
    const fresh = await db
      .updateTable("sessions")
      .set({ refreshedAt: now, expiresAt, ...renewal })
      .where(all({ familyHash, kind, secretHash }))
      .where("expiresAt", ">", now)
      .returning(["id", "personId"])
      .executeTakeFirst();
    if (fresh) return { result: "fresh", ...fresh };
    const known = await firstOf(db.selectFrom("sessions").selectAll().where(all({ familyHash, kind })));
    if (!known || known.expiresAt <= now) return { result: "unknown" };
    const { id, personId, previousHash, refreshedAt } = known;
    const isPrevious = previousHash !== null && Buffer.from(previousHash).equals(secretHash);
    if (isPrevious && now - refreshedAt <= graceMs) return { result: "again", id, personId };
    await db.deleteFrom("sessions").where("id", "=", id).execute();
    await noteChange(session, "person", personId);
    return { result: "reused", id, personId };
  }),

  /** A person's sessions that have not expired, newest first. */
  list: read(async ({ db }, { personId, now }: Approver): Promise<PersonSession[]> => {
    const ofPerson = db.selectFrom("sessions").selectAll().where("personId", "=", personId);
    const current = ofPerson.where("expiresAt", ">", now);
    return await current.orderBy("createdAt", "desc").orderBy("id", "desc").execute();
  }),

  /** False if the person has no such session. */
  end: write(async (session, { id, personId }: SessionKey): Promise<boolean> => {
    const end = session.db.deleteFrom("sessions").where(all({ id, personId }));
    return await isNoted(session, end, "person", personId);
  }),

  /** Ends the session of a refresh token; null if there is none. */
  endByFamily: write(async (session, familyHash: Uint8Array): Promise<SessionKey | null> => {
    const ended = session.db.deleteFrom("sessions").where("familyHash", "=", familyHash);
    const row = await firstOf(ended.returning(["id", "personId"]));
    if (row) await noteChange(session, "person", row.personId);
    return row;
  }),

  /** Ends all sessions of a person except `keptId`. */
  endOthers: write(async (session, { personId, keptId }: OtherSessions): Promise<void> => {
    const ofPerson = session.db.deleteFrom("sessions").where("personId", "=", personId);
    await (keptId === null ? ofPerson : ofPerson.where("id", "<>", keptId)).execute();
    await noteChange(session, "person", personId);
  }),
};

/** A command line's request to be signed in. Of its two codes, only hashes are stored. */
type DeviceCode = Row<"deviceCodes">;

type Approver = { readonly personId: string; readonly now: number };
type CodeUse = { readonly deviceHash: Uint8Array; readonly now: number };

/** Codes by which a command line requests a session. */
export const deviceCodes = {
  insert: write(async ({ db }, code: Omit<DeviceCode, "personId">): Promise<void> => {
    // Keeps the table small.
    await db.deleteFrom("deviceCodes").where("expiresAt", "<=", code.createdAt).execute();
    await db.insertInto("deviceCodes").values(code).execute();
  }),

  find: read(
    async ({ db }, deviceHash: Uint8Array): Promise<DeviceCode | null> =>
      await firstOf(db.selectFrom("deviceCodes").selectAll().where("deviceHash", "=", deviceHash)),
  ),

  /** False if no such code waits for approval. */
  approve: write(async ({ db }, input: Approver & Pick<DeviceCode, "userHash">): Promise<boolean> => {
    const { personId, userHash, now } = input;
    const approval = db.updateTable("deviceCodes").set({ personId }).where("expiresAt", ">", now);
    return await isDone(approval.where(all({ userHash, personId: null })));
  }),

  /** The person who approved the code, returned once; null if it is not approved, or was returned before. */
  take: write(async ({ db }, { deviceHash, now }: CodeUse): Promise<string | null> => {
    const code = db.deleteFrom("deviceCodes").where("deviceHash", "=", deviceHash);
    const approved = code.where("personId", "is not", null).where("expiresAt", ">", now);
    return (await firstOf(approved.returning("personId")))?.personId ?? null;
  }),
};
