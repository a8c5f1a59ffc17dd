import { read, write } from "./operation.ts";
import type { PeopleTable } from "./schema.ts";

/** Somebody who signs in. The hash of the password is sealed before it gets here; null until there is one. */
export type Person = Readonly<PeopleTable>;

type NewPassword = {
  readonly id: string;
  readonly sealedPassword: Uint8Array;
  readonly now: number;
  readonly updatedAt: number;
};

/** People. */
export const people = {
  hasAny: read(async ({ db }): Promise<boolean> => {
    const row = await db.selectFrom("people").select("id").limit(1).executeTakeFirst();
    return row !== undefined;
  }),

  /** Stores the first person as owner of every project; false when somebody was first. */
  insertFirst: write(async ({ db }, person: Person): Promise<boolean> => {
    // The key is taken once, also by two who come at the same moment.
    const claim = await db
      .insertInto("meta")
      .values({ key: "first_person", value: person.id })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    if (claim.numInsertedOrUpdatedRows !== 1n) return false;
    await db.insertInto("people").values(person).execute();
    const projects = await db.selectFrom("projects").select("id").execute();
    for (const { id: projectId } of projects) {
      const { id: personId, createdAt } = person;
      await db.insertInto("memberships").values({ personId, projectId, role: "owner", createdAt }).execute();
    }
    return true;
  }),

  /** The person with the address, stored now unless there is one. */
  findOrInsert: write(async ({ db }, person: Person): Promise<Person> => {
    await db
      .insertInto("people")
      .values(person)
      .onConflict((conflict) => conflict.column("email").doNothing())
      .execute();
    return await db
      .selectFrom("people")
      .selectAll()
      .where("email", "=", person.email)
      .executeTakeFirstOrThrow();
  }),

  find: read(async ({ db }, id: string): Promise<Person | null> => {
    const row = await db.selectFrom("people").selectAll().where("id", "=", id).executeTakeFirst();
    return row ?? null;
  }),

  findByEmail: read(async ({ db }, email: string): Promise<Person | null> => {
    const row = await db.selectFrom("people").selectAll().where("email", "=", email).executeTakeFirst();
    return row ?? null;
  }),

  /** Sets a password unless it was changed since `updatedAt`; false when it was. */
  setPassword: write(
    async ({ db }, { id, sealedPassword, now, updatedAt }: NewPassword): Promise<boolean> => {
      const result = await db
        .updateTable("people")
        // Always later than before: a link that was made for the old password knows the old time.
        .set({ sealedPassword, updatedAt: Math.max(now, updatedAt + 1) })
        .where("id", "=", id)
        .where("updatedAt", "=", updatedAt)
        .executeTakeFirst();
      return result.numUpdatedRows === 1n;
    },
  ),
};
