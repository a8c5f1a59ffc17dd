import type { MemberRole } from "../../model/roles.ts";
import { noteChange } from "../nodes/changes.ts";
import { read, type Session, write } from "../operation.ts";
import { firstOf, isDone } from "../queries.ts";
import type { Row } from "../schema/schema.ts";
import { isTaken, type Person, prove } from "./people.ts";

/** Lets the holder of its secret become a member of one project, once. Of the secret, a hash is stored. */
export type Invitation = Row<"invitations">;

/** An invitation as it is made. */
export type NewInvitation = Omit<Invitation, "mailedAt" | "usedAt" | "usedBy">;

/** What an invitation offers. */
export type Offer = Pick<Invitation, "id" | "projectId" | "role" | "email" | "isMailed" | "expiresAt"> & {
  readonly projectName: string;
};

/** A membership that came from an invitation. */
export type Joined = Pick<Offer, "id" | "projectId" | "role"> & {
  readonly personId: string;
  readonly before: MemberRole | null;
};

type Secret = { readonly secretHash: Uint8Array; readonly now: number };
type InvitationKey = Pick<Invitation, "id" | "projectId">;
type MadeInvitation = { readonly invitation: NewInvitation; readonly max: number };

/** Invitations. Used ones do not count; expired ones are removed when the next one is made. */
export const invitations = {
  /** `full`: the project has `max` open invitations. `no_right`: the inviter may not, or no longer, invite to it. */
  insert: write(async (session, input: MadeInvitation): Promise<"made" | "full" | "no_right"> => {
    const { db } = session;
    const { invitation, max } = input;
    const { projectId, createdAt: now } = invitation;
    await lockProject(session, projectId);
    // Checked here too: the caller was checked against data that may be 5 s old, and an invitation lasts for days.
    if (!(await mayInvite(session, invitation))) return "no_right";
    await db.deleteFrom("invitations").where("expiresAt", "<=", now).execute();
    const open = await db
      .selectFrom("invitations")
      .select("id")
      .where((eb) => eb.and({ projectId, usedAt: null }))
      .limit(max)
      .execute();
    if (open.length >= max) return "full";
    await db.insertInto("invitations").values(invitation).execute();
    return "made";
  }),

  /** A project's open invitations, newest first. */
  list: read(
    async ({ db }, { projectId, now }: Readonly<{ projectId: string; now: number }>): Promise<Invitation[]> =>
      await db
        .selectFrom("invitations")
        .selectAll()
        .where((eb) => eb.and({ projectId, usedAt: null }))
        .where("expiresAt", ">", now)
        .orderBy("createdAt", "desc")
        .orderBy("id")
        .execute(),
  ),

  /** Null if the project has no such open invitation. */
  revoke: write(async ({ db }, { projectId, id }: InvitationKey): Promise<Invitation | null> => {
    const ofProject = db.deleteFrom("invitations").where("projectId", "=", projectId);
    return await firstOf(ofProject.where("id", "=", id).where("usedAt", "is", null).returningAll());
  }),

  /** What the secret offers; null if it is not valid. */
  find: read(async ({ db }, secret: Secret): Promise<Offer | null> => await findOpen({ db }, secret)),

  /** Makes a person a member, and never reduces their role; null if the secret is not valid. */
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
   * Stores a person and makes them a member. Stores no one if the secret is not valid (null), or if another person signs
   * in with that address and password (`taken`): then the secret stays valid.
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

  noteMailed: write(async ({ db }, { id, now }: Readonly<{ id: string; now: number }>): Promise<void> => {
    await db.updateTable("invitations").set({ mailedAt: now }).where("id", "=", id).execute();
  }),
};

/** Serialises changes to a project's members: two owners may try to remove each other, for example. */
export async function lockProject({ db }: Session, projectId: string): Promise<void> {
  await db
    .updateTable("projects")
    .set((eb) => ({ name: eb.ref("name") }))
    .where("id", "=", projectId)
    .execute();
}

/** Voids a person's or account's invitations to a project: they are worth no more than the inviter's own right. */
export async function voidInvitations(
  { db }: Session,
  { projectId, inviterId }: Pick<Invitation, "projectId" | "inviterId">,
): Promise<void> {
  await db
    .deleteFrom("invitations")
    .where((eb) => eb.and({ projectId, inviterId, usedAt: null }))
    .execute();
}

/** Whether the inviter is an owner of the project, or an account of role `admin`. */
async function mayInvite(
  { db }: Session,
  { projectId, inviterId, createdAt: now }: NewInvitation,
): Promise<boolean> {
  const owner = await db
    .selectFrom("memberships")
    .select("role")
    .where((eb) => eb.and({ projectId, personId: inviterId, role: "owner" }))
    .executeTakeFirst();
  if (owner) return true;
  const account = await db
    .selectFrom("serviceAccounts")
    .select("id")
    .where((eb) => eb.and({ projectId, id: inviterId, role: "admin", revokedAt: null }))
    .where("expiresAt", ">", now)
    .executeTakeFirst();
  return account !== undefined;
}

async function findOpen({ db }: Pick<Session, "db">, { secretHash, now }: Secret): Promise<Offer | null> {
  const query = db
    .selectFrom("invitations")
    .innerJoin("projects", "projects.id", "invitations.projectId")
    .select(["invitations.id", "invitations.projectId", "invitations.role", "invitations.email"])
    .select(["invitations.isMailed", "invitations.expiresAt", "projects.name as projectName"])
    .where((eb) => eb.and({ "invitations.secretHash": secretHash, "invitations.usedAt": null }))
    .where("invitations.expiresAt", ">", now);
  return await firstOf(query);
}

/** Marks the invitation as used; null if the secret is not valid. If two people try at the same moment, one succeeds. */
async function take(session: Session, secret: Secret): Promise<Offer | null> {
  const open = await findOpen(session, secret);
  if (!open) return null;
  // Before it is used: if the inviter is being removed, the invitation is removed too.
  await lockProject(session, open.projectId);
  const used = session.db
    .updateTable("invitations")
    .set({ usedAt: secret.now })
    .where((eb) => eb.and({ id: open.id, usedAt: null }));
  return (await isDone(used)) ? open : null;
}

async function join(
  session: Session,
  { id, projectId, role: offered, email, isMailed }: Offer,
  { personId, now }: { readonly personId: string; readonly now: number },
): Promise<Joined> {
  const { db } = session;
  await db.updateTable("invitations").set({ usedBy: personId }).where("id", "=", id).execute();
  // Only the mail contained the secret, so this person receives that address's mail.
  if (isMailed) await prove(session, { id: personId, email, now }, false);
  const memberships = db.selectFrom("memberships").select("role").where("personId", "=", personId);
  const before = (await firstOf(memberships.where("projectId", "=", projectId)))?.role ?? null;
  const role = before === "owner" ? before : offered;
  await db
    .insertInto("memberships")
    .values({ personId, projectId, role, createdAt: now })
    .onConflict((conflict) => conflict.columns(["personId", "projectId"]).doUpdateSet({ role }))
    .execute();
  await noteChange(session, "person", personId);
  return { id, projectId, personId, before, role };
}
