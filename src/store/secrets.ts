import { noteChange } from "./changes.ts";
import { read, write } from "./operation.ts";

/** Where a map of secrets belongs: to an app, or with number 0 to its whole project. */
export type SecretScope = { readonly projectId: string; readonly appNumber: number };

/** What a change of secrets is about, as it is told to other services. */
function subjectOf({ projectId, appNumber }: SecretScope): string {
  return `${projectId}/${appNumber}`;
}

/** The scope that such a subject names. */
export function scopeOf(subject: string): SecretScope {
  const end = subject.lastIndexOf("/");
  return { projectId: subject.slice(0, end), appNumber: Number(subject.slice(end + 1)) };
}

/** Maps of secrets, sealed before they get here. */
export const secrets = {
  find: read(async ({ db }, { projectId, appNumber }: SecretScope): Promise<Uint8Array | null> => {
    const row = await db
      .selectFrom("secrets")
      .select("sealedMap")
      .where("projectId", "=", projectId)
      .where("appNumber", "=", appNumber)
      .executeTakeFirst();
    return row?.sealedMap ?? null;
  }),

  replace: write(
    async (
      session,
      row: SecretScope & { readonly sealedMap: Uint8Array; readonly updatedAt: number },
    ): Promise<void> => {
      await session.db
        .insertInto("secrets")
        .values(row)
        .onConflict((conflict) =>
          conflict.columns(["projectId", "appNumber"]).doUpdateSet((eb) => ({
            sealedMap: eb.ref("excluded.sealedMap"),
            updatedAt: eb.ref("excluded.updatedAt"),
          })),
        )
        .execute();
      await noteChange(session, "secrets", subjectOf(row));
    },
  ),
};
