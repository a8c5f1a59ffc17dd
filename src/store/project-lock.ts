import type { Session } from "./operation.ts";

/** Serialises changes to a project's members: two owners may try to remove each other, for example. */
export async function lockProject({ db }: Pick<Session, "db">, projectId: string): Promise<void> {
  await db
    .updateTable("projects")
    .set((eb) => ({ name: eb.ref("name") }))
    .where("id", "=", projectId)
    .execute();
}
