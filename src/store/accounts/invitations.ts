import type { Row } from "../schema/schema.ts";
import type { MemberRole } from "../../model/roles.ts";
import type { Session } from "../operation.ts";
import { noteChange } from "../nodes/changes.ts";
import { read, write } from "../operation.ts";
import { isTaken, prove } from "./people.ts";
import type { Person } from "./people.ts";

/** Serialises changes to a project's members: two owners may try to remove each other, for example. */
export async function lockProject({ db }: Pick<Session, "db">, projectId: string): Promise<void> {
  await db
    .updateTable("projects")
    .set((eb) => ({ name: eb.ref("name") }))
    .where("id", "=", projectId)
    .execute();
}

/** The right of whoever has its secret to become a member of one project, once. Of the secret a hash is kept. */
export type Invitation = Row<"invitations">;

/** An invitation as it is made. */
export type NewInvitation = Omit<Invitation, "mailedAt" | "usedAt" | "usedBy">;

/** What an invitation is for. */
export type Offer = Pick<Invitation, "id" | "projectId" | "role" | "email" | "isMailed" | "expiresAt"> & {
  readonly projectName: string;
};

/** What somebody has become by an invitation. */
export type Joined = Pick<Offer, "id" | "projectId"> & {
  readonly personId: string;
  readonly before: MemberRole | null;
  readonly role: MemberRole;
};

type Secret = { readonly secretHash: Uint8Array; readonly now: number };

/** Invitations. Those that were used or have expired are no longer any, and go with the next one that is made. */
export const invitations = {
  /** `full`: the project has as many as it may have. `no_right`: the inviter may not invite to it, or no longer. */
  insert: write(
    async (
      session,
      { invitation, max }: { readonly invitation: NewInvitation; readonly max: number },
    ): Promise<"made" | "full" | "no_right"> => {
      const { db } = session;
      const { projectId, createdAt: now } = invitation;
      await lockProject(session, projectId);
      // Looked at here: who asks was let in by what was known up to 5 s before, and this lasts for days.
      if (!(await mayInvite(session, invitation))) return "no_right";
      // Here, so that the table stays small without anybody looking after it.
      await db.deleteFrom("invitations").where("expiresAt", "<=", now).execute();
      const open = await db
        .selectFrom("invitations")
        .select("id")
        .where("projectId", "=", projectId)
        .where("usedAt", "is", null)
        .limit(max)
        .execute();
      if (open.length >= max) return "full";
      await db.insertInto("invitations").values(invitation).execute();
      return "made";
    },
  ),

  /** A project's open invitations, newest first. */
  list: read(
    async (
      { db },
      { projectId, now }: { readonly projectId: string; readonly now: number },
    ): Promise<Invitation[]> =>
      await db
        .selectFrom("invitations")
        .selectAll()
        .where("projectId", "=", projectId)
        .where("usedAt", "is", null)
        .where("expiresAt", ">", now)
        .orderBy("createdAt", "desc")
        .orderBy("id")
        .execute(),
  ),

  /** Null when the project has no such open invitation. */
  revoke: write(
    async (
      { db },
      { projectId, id }: { readonly projectId: string; readonly id: string },
    ): Promise<Invitation | null> => {
      const revoked = await db
        .deleteFrom("invitations")
        .where("projectId", "=", projectId)
        .where("id", "=", id)
        .where("usedAt", "is", null)
        .returningAll()
        .executeTakeFirst();
      return revoked ?? null;
    },
  ),

  /** What the secret is good for; null when that is nothing. */
  find: read(async ({ db }, secret: Secret): Promise<Offer | null> => await findOpen({ db }, secret)),

  /** Makes somebody a member by the secret, and never less than they are; null when it is good for nothing. */
  accept: write(
    async (
      session,
      { personId, ...secret }: Secret & { readonly personId: string },
    ): Promise<Joined | null> => {
      const offer = await take(session, secret);
      return offer && (await join(session, offer, { personId, now: secret.now }));
    },
  ),

  /**
   * Makes a person who is a member by the secret. Nobody is made when it is good for nothing (null), or somebody
   * signs in with that address and password already (`taken`): then it stays good.
   */
  signUp: write(
    async (
      session,
      { person, ...secret }: Secret & { readonly person: Person },
    ): Promise<Joined | "taken" | null> => {
      const open = await findOpen(session, secret);
      if (!open) return null;
      await lockProject(session, open.projectId);
      if (await isTaken(session, person, person.id)) return "taken";
      const offer = await take(session, secret);
      if (!offer) return null;
      await session.db.insertInto("people").values(person).execute();
      return await join(session, offer, { personId: person.id, now: secret.now });
    },
  ),

  noteMailed: write(
    async ({ db }, { id, now }: { readonly id: string; readonly now: number }): Promise<void> => {
      await db.updateTable("invitations").set({ mailedAt: now }).where("id", "=", id).execute();
    },
  ),
};

/** Voids what somebody has invited to a project: it is worth no more than its inviter's own right. */
export async function voidInvitations(
  { db }: Pick<Session, "db">,
  { projectId, inviterId }: Pick<Invitation, "projectId" | "inviterId">,
): Promise<void> {
  await db
    .deleteFrom("invitations")
    .where("projectId", "=", projectId)
    .where("inviterId", "=", inviterId)
    .where("usedAt", "is", null)
    .execute();
}

/** Whether somebody is an owner of the project, or an account that may do all in it. */
async function mayInvite(
  { db }: Pick<Session, "db">,
  { projectId, inviterId, createdAt: now }: NewInvitation,
): Promise<boolean> {
  const owner = await db
    .selectFrom("memberships")
    .select("role")
    .where("projectId", "=", projectId)
    .where("personId", "=", inviterId)
    .where("role", "=", "owner")
    .executeTakeFirst();
  if (owner) return true;
  const account = await db
    .selectFrom("serviceAccounts")
    .select("id")
    .where("projectId", "=", projectId)
    .where("id", "=", inviterId)
    .where("role", "=", "admin")
    .where("revokedAt", "is", null)
    .where("expiresAt", ">", now)
    .executeTakeFirst();
  return account !== undefined;
}

async function findOpen({ db }: Pick<Session, "db">, { secretHash, now }: Secret): Promise<Offer | null> {
  const row = await db
    .selectFrom("invitations")
    .innerJoin("projects", "projects.id", "invitations.projectId")
    .select(["invitations.id", "invitations.projectId", "invitations.role", "invitations.email"])
    .select(["invitations.isMailed", "invitations.expiresAt", "projects.name as projectName"])
    .where("invitations.secretHash", "=", secretHash)
    .where("invitations.usedAt", "is", null)
    .where("invitations.expiresAt", ">", now)
    .executeTakeFirst();
  return row ?? null;
}

/** Uses the secret up; null when it is good for nothing. Of two who come at the same moment one has it. */
async function take(session: Session, secret: Secret): Promise<Offer | null> {
  const open = await findOpen(session, secret);
  if (!open) return null;
  // Before it is used: an inviter who is being removed takes the invitation along.
  await lockProject(session, open.projectId);
  const used = await session.db
    .updateTable("invitations")
    .set({ usedAt: secret.now })
    .where("id", "=", open.id)
    .where("usedAt", "is", null)
    .executeTakeFirst();
  return used.numUpdatedRows === 1n ? open : null;
}

async function join(
  session: Session,
  { id, projectId, role: offered, email, isMailed }: Offer,
  { personId, now }: { readonly personId: string; readonly now: number },
): Promise<Joined> {
  const { db } = session;
  await db.updateTable("invitations").set({ usedBy: personId }).where("id", "=", id).execute();
  // Only the mail had the secret: whoever comes by it has that address, if it is the one they go by.
  if (isMailed) await prove(session, { id: personId, email, now }, false);
  const member = await db
    .selectFrom("memberships")
    .select("role")
    .where("personId", "=", personId)
    .where("projectId", "=", projectId)
    .executeTakeFirst();
  const before = member?.role ?? null;
  const role = before === "owner" ? before : offered;
  await db
    .insertInto("memberships")
    .values({ personId, projectId, role, createdAt: now })
    .onConflict((conflict) => conflict.columns(["personId", "projectId"]).doUpdateSet({ role }))
    .execute();
  await noteChange(session, "person", personId);
  return { id, projectId, personId, before, role };
}
