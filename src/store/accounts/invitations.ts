import type { MemberRole } from "../../model/roles.ts";
import { noteChange } from "../nodes/changes.ts";
import { read, type Row, type Session, write } from "../operation.ts";
import { all, firstOf, isDone } from "../queries.ts";
import { isTaken, type Person, prove } from "./people.ts";

/** Lets the holder of its secret become a member of one project, once. Of the secret, a hash is stored. */
export type Invitation = Row<"invitations">;

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
type Acceptance = Secret & { readonly personId: string };
type SignUp = Secret & { readonly person: Person };
type InvitationKey = Pick<Invitation, "id" | "projectId">;
type OpenQuery = { readonly projectId: string; readonly now: number };
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
    const open = await unused(session, projectId).select("id").limit(max).execute();
    if (open.length >= max) return "full";
    await db.insertInto("invitations").values(invitation).execute();
    return "made";
  }),

  /** A project's open invitations, newest first. */
  list: read(async (session, { projectId, now }: OpenQuery): Promise<Invitation[]> => {
    const open = unused(session, projectId).selectAll().where("expiresAt", ">", now);
    return await open.orderBy("createdAt", "desc").orderBy("id").execute();
  }),

  /** Null if the project has no such open invitation. */
  revoke: write(async ({ db }, { projectId, id }: InvitationKey): Promise<Invitation | null> => {
    const removal = db.deleteFrom("invitations").where(all({ projectId, id, usedAt: null }));
    return await firstOf(removal.returningAll());
  }),

  /** What the secret offers; null if it is not valid. */
  find: read(async ({ db }, secret: Secret): Promise<Offer | null> => await findOpen({ db }, secret)),

  /** Makes a person a member, and never reduces their role; null if the secret is not valid. */
  accept: write(async (session, { personId, ...secret }: Acceptance): Promise<Joined | null> => {
    const offer = await take(session, secret);
    return offer && (await join(session, offer, personId, secret.now));
  }),

  /**
   * Stores a person and makes them a member. Stores no one if the secret is not valid (null), or if another person
   * signs in with that address and password (`taken`): then the secret stays valid.
   */
  signUp: write(async (session, { person, ...secret }: SignUp): Promise<Joined | "taken" | null> => {
    const open = await findOpen(session, secret);
    if (!open) return null;
    await lockProject(session, open.projectId);
    if (await isTaken(session, person, person.id)) return "taken";
    const offer = await take(session, secret);
    if (!offer) return null;
    await session.db.insertInto("people").values(person).execute();
    return await join(session, offer, person.id, secret.now);
  }),

  noteMailed: write(async ({ db }, { id, now: mailedAt }: Readonly<{ id: string; now: number }>) => {
    await db.updateTable("invitations").set({ mailedAt }).where("id", "=", id).execute();
  }),
};

function unused({ db }: Session, projectId: string) {
  return db.selectFrom("invitations").where(all({ projectId, usedAt: null }));
}

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
  const unused = db.deleteFrom("invitations").where(all({ projectId, inviterId, usedAt: null }));
  await unused.execute();
}

/** Whether the inviter is an owner of the project, or an account of role `admin`. */
async function mayInvite({ db }: Session, invitation: NewInvitation): Promise<boolean> {
  const { projectId, inviterId, createdAt: now } = invitation;
  const memberships = db.selectFrom("memberships").select("role");
  if (await firstOf(memberships.where(all({ projectId, personId: inviterId, role: "owner" })))) return true;
  const accounts = db.selectFrom("serviceAccounts").select("id").where("expiresAt", ">", now);
  const admin = accounts.where(all({ projectId, id: inviterId, role: "admin", revokedAt: null }));
  return (await firstOf(admin)) !== null;
}

async function findOpen({ db }: Pick<Session, "db">, { secretHash, now }: Secret): Promise<Offer | null> {
  const query = db
    .selectFrom("invitations")
    .innerJoin("projects", "projects.id", "invitations.projectId")
    .select(["invitations.id", "invitations.projectId", "invitations.role", "invitations.email"])
    .select(["invitations.isMailed", "invitations.expiresAt", "projects.name as projectName"])
    .where(all({ "invitations.secretHash": secretHash, "invitations.usedAt": null }))
    .where("invitations.expiresAt", ">", now);
  return await firstOf(query);
}

/** Marks the invitation as used; null if the secret is not valid. If two people try at the same moment, one succeeds. */
async function take(session: Session, secret: Secret): Promise<Offer | null> {
  const open = await findOpen(session, secret);
  if (!open) return null;
  // Before it is used: if the inviter is being removed, the invitation is removed too.
  await lockProject(session, open.projectId);
  const use = session.db.updateTable("invitations").set({ usedAt: secret.now });
  return (await isDone(use.where(all({ id: open.id, usedAt: null })))) ? open : null;
}

async function join(session: Session, offer: Offer, personId: string, now: number): Promise<Joined> {
  const { db } = session;
  const { id, projectId, role: offered, email, isMailed } = offer;
  await db.updateTable("invitations").set({ usedBy: personId }).where("id", "=", id).execute();
  // Only the mail contained the secret, so this person receives that address's mail.
  if (isMailed) await prove(session, { id: personId, email, now }, false);
  const membership = db.selectFrom("memberships").select("role").where(all({ personId, projectId }));
  const before = (await firstOf(membership))?.role ?? null;
  const role = before === "owner" ? before : offered;
  await db
    .insertInto("memberships")
    .values({ personId, projectId, role, createdAt: now })
    .onConflict((conflict) => conflict.columns(["personId", "projectId"]).doUpdateSet({ role }))
    .execute();
  await noteChange(session, "person", personId);
  return { id, projectId, personId, before, role };
}
