import type { Project } from "../model/app.ts";
import { noteChange } from "./changes.ts";
import { read, write } from "./operation.ts";

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
