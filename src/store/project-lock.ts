import type { Session } from "./operation.ts";

/** Changes of who belongs to a project come one after the other: two owners who remove each other, for example. */
export async function lockProject({ db }: Pick<Session, "db">, projectId: string): Promise<void> {
  await db
    .updateTable("projects")
    .set((eb) => ({ name: eb.ref("name") }))
    .where("id", "=", projectId)
    .execute();
}
