import type { Row } from "../schema/schema.ts";
import { noteChange } from "../nodes/changes.ts";
import { read, write } from "../operation.ts";
import type { Session } from "../operation.ts";

/** Somebody who signs in. Of their password, only the key that finds them is stored. */
export type Person = Row<"people">;

/** `stale`: the person was changed meanwhile. `taken`: somebody else signs in with that address and password. */
export type PersonChange = "changed" | "stale" | "taken";

/** What somebody signs in with: together they are one person's. */
type SignIn = { readonly email: string; readonly signInKey: Uint8Array };

/** A change that is void when the person was changed since `updatedAt`. */
type Change = {
  readonly id: string;
  readonly signInKey: Uint8Array;
  readonly now: number;
  readonly updatedAt: number;
};

/** That mail to an address reaches a person. */
export type Proof = { readonly id: string; readonly email: string; readonly now: number };

/** People. */
export const people = {
  hasAny: read(async ({ db }): Promise<boolean> => {
    const row = await db.selectFrom("people").select("id").limit(1).executeTakeFirst();
    return row !== undefined;
  }),

  /** Stores the first person as owner of every project; false when somebody was first. */
  insertFirst: write(async (session, person: Person): Promise<boolean> => {
    const { db } = session;
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
    await noteChange(session, "person", person.id);
    return true;
  }),

  find: read(async ({ db }, id: string): Promise<Person | null> => {
    const row = await db.selectFrom("people").selectAll().where("id", "=", id).executeTakeFirst();
    return row ?? null;
  }),

  findBySignIn: read(async ({ db }, { email, signInKey }: SignIn): Promise<Person | null> => {
    const row = await db
      .selectFrom("people")
      .selectAll()
      .where("email", "=", email)
      .where("signInKey", "=", signInKey)
      .executeTakeFirst();
    return row ?? null;
  }),

  /** The one who has proven the address. */
  findProven: read(async ({ db }, email: string): Promise<Person | null> => {
    const row = await db
      .selectFrom("people")
      .selectAll()
      .where("email", "=", email)
      .where("provenAt", "is not", null)
      .executeTakeFirst();
    return row ?? null;
  }),

  /** Those who have the address, as a label or proven, oldest first. */
  listByEmail: read(
    async ({ db }, { email, limit }: { readonly email: string; readonly limit: number }): Promise<Person[]> =>
      await db
        .selectFrom("people")
        .selectAll()
        .where("email", "=", email)
        .orderBy("createdAt")
        .orderBy("id")
        .limit(limit)
        .execute(),
  ),

  setPassword: write(async (session, change: Change): Promise<PersonChange> => {
    const { id, signInKey, now, updatedAt } = change;
    const person = await session.db
      .selectFrom("people")
      .select("email")
      .where("id", "=", id)
      .where("updatedAt", "=", updatedAt)
      .executeTakeFirst();
    if (!person) return "stale";
    if (await isTaken(session, { email: person.email, signInKey }, id)) return "taken";
    const result = await session.db
      .updateTable("people")
      // Always later than before: a link that was made for the old password knows the old time.
      .set({ signInKey, updatedAt: Math.max(now, updatedAt + 1) })
      .where("id", "=", id)
      .where("updatedAt", "=", updatedAt)
      .executeTakeFirst();
    if (result.numUpdatedRows !== 1n) return "stale";
    await noteChange(session, "person", id);
    return "changed";
  }),

  /** Gives a person another address, which nobody has proven for them yet. */
  setEmail: write(async (session, change: Change & { readonly email: string }): Promise<PersonChange> => {
    const { id, email, signInKey, now, updatedAt } = change;
    if (await isTaken(session, { email, signInKey }, id)) return "taken";
    const result = await session.db
      .updateTable("people")
      .set({ email, provenAt: null, signInKey, updatedAt: Math.max(now, updatedAt + 1) })
      .where("id", "=", id)
      .where("updatedAt", "=", updatedAt)
      .executeTakeFirst();
    if (result.numUpdatedRows !== 1n) return "stale";
    await noteChange(session, "person", id);
    return "changed";
  }),

  /** Gives the address to that person alone: the latest proof wins. False if it is no longer theirs. */
  prove: write(async (session, proof: Proof): Promise<boolean> => await prove(session, proof, true)),
};

/** Whether somebody else signs in with that. Until the transaction ends, nobody else can start to. */
export async function isTaken(session: Session, { email, signInKey }: SignIn, id: string): Promise<boolean> {
  await lockPeople(session);
  const other = await session.db
    .selectFrom("people")
    .select("id")
    .where("email", "=", email)
    .where("signInKey", "=", signInKey)
    .where("id", "<>", id)
    .executeTakeFirst();
  return other !== undefined;
}

/** Notes that a person has shown an address to be theirs; one that another has shown before is taken only if asked. */
export async function prove(session: Session, { id, email, now }: Proof, isMoved: boolean): Promise<boolean> {
  const { db } = session;
  await lockPeople(session);
  // Held from here on: a change of the address that comes now must not be proven by the mail to the one before.
  const theirs = await db
    .updateTable("people")
    .set((eb) => ({ email: eb.ref("email") }))
    .where("id", "=", id)
    .where("email", "=", email)
    .executeTakeFirst();
  if (theirs.numUpdatedRows !== 1n) return false;
  const others = await db
    .updateTable("people")
    .set((eb) => ({ provenAt: isMoved ? null : eb.ref("provenAt") }))
    .where("email", "=", email)
    .where("provenAt", "is not", null)
    .where("id", "<>", id)
    .executeTakeFirst();
  if (!isMoved && others.numUpdatedRows > 0n) return false;
  await db.updateTable("people").set({ provenAt: now }).where("id", "=", id).execute();
  await noteChange(session, "person", id);
  return true;
}

/** What people have to themselves is given to one after the other: an address that is proven, a way to sign in. */
async function lockPeople({ db }: Session): Promise<void> {
  await db
    .updateTable("meta")
    .set((eb) => ({ value: eb.ref("value") }))
    .where("key", "=", "first_person")
    .execute();
}
