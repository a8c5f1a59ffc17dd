import type { Project } from "../../model/app.ts";
import { isNoted, noteChange } from "../nodes/changes.ts";
import { read, type Row, type Session, write } from "../operation.ts";
import { all, doNothing, firstOf, isDone } from "../queries.ts";
import { lockProject, voidInvitations } from "./invitations.ts";

/** Projects, which own apps and service accounts. */
export const projects = {
  /** False if the id is taken. */
  insert: write(
    async (session, project: Project): Promise<boolean> =>
      await isNoted(session, newProject(session, project), "project", project.id),
  ),

  find: read(
    async ({ db }, id: string): Promise<Project | null> =>
      await firstOf(db.selectFrom("projects").select(["id", "name", "createdAt"]).where("id", "=", id)),
  ),

  /** The quotas of those of these projects, or of all, that have some. */
  quotas: read(async ({ db }, ids: readonly string[] | null) => {
    const limited = db.selectFrom("projects").select(["id", "quotas"]).where("quotas", "is not", null);
    return await (ids ? limited.where("id", "in", ids) : limited).execute();
  }),

  /** False if there is no such project. */
  update: write(async (session, { id, change }: ProjectUpdate): Promise<boolean> => {
    // The project's own id if nothing changes: a statement has to set something.
    const update = session.db.updateTable("projects").set({ id, ...change });
    return await isNoted(session, update.where("id", "=", id), "project", id);
  }),
};

/** An absent member stays as it is; `quotas` as JSON. */
type ProjectUpdate = {
  readonly id: string;
  readonly change: Partial<Pick<Row<"projects">, "name" | "quotas">>;
};

/** A person's role in a project. */
export type Membership = Row<"memberships">;

/** A member with their address, and when they proved it. */
export type Member = Membership & { readonly email: string; readonly provenAt: number | null };

/** A project always has an owner. */
export type MembershipChange = "changed" | "absent" | "last_owner";

type MemberKey = Pick<Membership, "personId" | "projectId">;
type NewRole = Omit<Membership, "createdAt">;
/** `maxOwned`: how many projects one person may own. */
type NewProject = { readonly project: Project; readonly personId: string; readonly maxOwned: number };

/** Who belongs to which project. */
export const memberships = {
  /** Stores a project and its first owner; both or neither. */
  insertProject: write(async (session, input: NewProject): Promise<"made" | "taken" | "too_many"> => {
    const { db } = session;
    const { project, personId, maxOwned } = input;
    const ownerships = db.selectFrom("memberships").where(all({ personId, role: "owner" }));
    const owned = await ownerships.select("projectId").limit(maxOwned).execute();
    if (owned.length >= maxOwned) return "too_many";
    if (!(await isDone(newProject(session, project)))) return "taken";
    const { id: projectId, createdAt } = project;
    await db.insertInto("memberships").values({ personId, projectId, role: "owner", createdAt }).execute();
    await noteChange(session, "project", projectId);
    await noteChange(session, "person", personId);
    return "made";
  }),

  /** Changes a member's role. The invitations of a former owner are void. */
  setRole: write(async (session, { personId, projectId, role }: NewRole): Promise<MembershipChange> => {
    await lockProject(session, projectId);
    if (role !== "owner" && !(await endOwnership(session, { personId, projectId }))) return "last_owner";
    const update = session.db.updateTable("memberships").set({ role }).where(all({ personId, projectId }));
    return (await isNoted(session, update, "person", personId)) ? "changed" : "absent";
  }),

  /** Removes a member, and their invitations. */
  remove: write(async (session, { personId, projectId }: MemberKey): Promise<MembershipChange> => {
    await lockProject(session, projectId);
    if (!(await endOwnership(session, { personId, projectId }))) return "last_owner";
    const removal = session.db.deleteFrom("memberships").where(all({ personId, projectId }));
    return (await isNoted(session, removal, "person", personId)) ? "changed" : "absent";
  }),

  /** A project's members, in the order they joined. */
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

  /** A person's projects, oldest first. */
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

function newProject({ db }: Session, project: Project) {
  return db.insertInto("projects").values(project).onConflict(doNothing);
}

/** Voids a member's invitations; false, with nothing changed, if the member is the last owner. */
async function endOwnership(session: Session, { personId, projectId }: MemberKey): Promise<boolean> {
  const members = session.db.selectFrom("memberships").where(all({ projectId, role: "owner" }));
  const owners = await members.select("personId").limit(2).execute();
  if (owners.length === 1 && owners[0]?.personId === personId) return false;
  await voidInvitations(session, { projectId, inviterId: personId });
  return true;
}
