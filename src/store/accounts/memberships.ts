import type { Row } from "../schema/schema.ts";
import type { Project } from "../../model/app.ts";
import { noteChange } from "../nodes/changes.ts";
import { read, write } from "../operation.ts";
import { lockProject, voidInvitations } from "./invitations.ts";
import type { Session } from "../operation.ts";

/** Projects: what apps and service accounts belong to. */
export const projects = {
  /** False when the id is taken. */
  insert: write(async (session, project: Project): Promise<boolean> => {
    const result = await session.db
      .insertInto("projects")
      .values(project)
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    if (result.numInsertedOrUpdatedRows !== 1n) return false;
    await noteChange(session, "project", project.id);
    return true;
  }),

  find: read(async ({ db }, id: string): Promise<Project | null> => {
    const row = await db.selectFrom("projects").selectAll().where("id", "=", id).executeTakeFirst();
    return row ?? null;
  }),

  /** Oldest first. */
  list: read(
    async ({ db }): Promise<Project[]> =>
      await db.selectFrom("projects").selectAll().orderBy("createdAt").orderBy("id").execute(),
  ),
};

/** What a person is in a project. */
export type Membership = Row<"memberships">;

/** A member with their address, and since when it is known to be theirs. */
export type Member = Membership & { readonly email: string; readonly provenAt: number | null };

/** A project is never left without an owner. */
export type MembershipChange = "changed" | "absent" | "last_owner";

type MemberKey = Pick<Membership, "personId" | "projectId">;
type NewRole = Omit<Membership, "createdAt">;
type NewProject = {
  readonly project: Project;
  readonly personId: string;
  /** So many projects one person may own. */
  readonly maxOwned: number;
};

/** Who belongs to which project. */
export const memberships = {
  /** Stores a project and its first owner; both or neither. */
  insertProject: write(
    async (session, { project, personId, maxOwned }: NewProject): Promise<"made" | "taken" | "too_many"> => {
      const { db } = session;
      const { owned } = await db
        .selectFrom("memberships")
        .select(({ fn }) => fn.countAll<number | string>().as("owned"))
        .where("personId", "=", personId)
        .where("role", "=", "owner")
        .executeTakeFirstOrThrow();
      if (Number(owned) >= maxOwned) return "too_many";
      const result = await db
        .insertInto("projects")
        .values(project)
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirst();
      if (result.numInsertedOrUpdatedRows !== 1n) return "taken";
      const { id: projectId, createdAt } = project;
      await db.insertInto("memberships").values({ personId, projectId, role: "owner", createdAt }).execute();
      await noteChange(session, "project", projectId);
      await noteChange(session, "person", personId);
      return "made";
    },
  ),

  /** Changes what a member is. Who is no longer an owner has invited nobody. */
  setRole: write(async (session, { personId, projectId, role }: NewRole): Promise<MembershipChange> => {
    await lockProject(session, projectId);
    if (role !== "owner") {
      if (await isLastOwner(session, { personId, projectId })) return "last_owner";
      await voidInvitations(session, { projectId, inviterId: personId });
    }
    const result = await session.db
      .updateTable("memberships")
      .set({ role })
      .where("personId", "=", personId)
      .where("projectId", "=", projectId)
      .executeTakeFirst();
    if (result.numUpdatedRows !== 1n) return "absent";
    await noteChange(session, "person", personId);
    return "changed";
  }),

  /** Takes somebody out, and what they have invited with them. */
  remove: write(async (session, { personId, projectId }: MemberKey): Promise<MembershipChange> => {
    await lockProject(session, projectId);
    if (await isLastOwner(session, { personId, projectId })) return "last_owner";
    await voidInvitations(session, { projectId, inviterId: personId });
    const result = await session.db
      .deleteFrom("memberships")
      .where("personId", "=", personId)
      .where("projectId", "=", projectId)
      .executeTakeFirst();
    if (result.numDeletedRows !== 1n) return "absent";
    await noteChange(session, "person", personId);
    return "changed";
  }),

  /** A project's members, in the order they came. */
  list: read(
    async ({ db }, projectId: string): Promise<Member[]> =>
      await db
        .selectFrom("memberships")
        .innerJoin("people", "people.id", "memberships.personId")
        .selectAll("memberships")
        .select(["people.email", "people.provenAt"])
        .where("memberships.projectId", "=", projectId)
        .orderBy("memberships.createdAt")
        .orderBy("people.email")
        .execute(),
  ),

  /** The projects of a person, oldest first. */
  projectsOf: read(
    async ({ db }, personId: string): Promise<(Project & Pick<Membership, "role">)[]> =>
      await db
        .selectFrom("memberships")
        .innerJoin("projects", "projects.id", "memberships.projectId")
        .selectAll("projects")
        .select("memberships.role")
        .where("memberships.personId", "=", personId)
        .orderBy("projects.createdAt")
        .orderBy("projects.id")
        .execute(),
  ),
};

async function isLastOwner({ db }: Session, { personId, projectId }: MemberKey): Promise<boolean> {
  const owners = await db
    .selectFrom("memberships")
    .select("personId")
    .where("projectId", "=", projectId)
    .where("role", "=", "owner")
    .limit(2)
    .execute();
  return owners.length === 1 && owners[0]?.personId === personId;
}
