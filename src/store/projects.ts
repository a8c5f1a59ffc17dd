import type { Project } from "../model/app.ts";
import { read, write } from "./operation.ts";

/** Projects: what apps and service accounts belong to. */
export const projects = {
  /** False when the id is taken. */
  insert: write(async ({ db }, project: Project): Promise<boolean> => {
    const result = await db
      .insertInto("projects")
      .values(project)
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    return result.numInsertedOrUpdatedRows === 1n;
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
