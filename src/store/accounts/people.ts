import { isNoted, noteChange } from "../nodes/changes.ts";
import { read, type Row, type Session, write } from "../operation.ts";
import { all, doNothing, firstOf, isDone } from "../queries.ts";

/** A person who signs in. Of the password, only a derived key is stored. */
export type Person = Row<"people">;

/** `stale`: the person has changed since. `taken`: another person signs in with that address and password. */
export type PersonChange = "changed" | "stale" | "taken";

/** An address and a derived key, which together are unique. */
type SignIn = Pick<Person, "email" | "signInKey">;

/** A change that fails if the person has changed since `updatedAt`. */
type Change = Pick<Person, "id" | "signInKey" | "updatedAt"> & { readonly now: number };

/** That a person receives the mail to an address. */
export type Proof = Pick<Person, "id" | "email"> & { readonly now: number };

type EmailQuery = { readonly email: string; readonly limit: number };

/** People. */
export const people = {
  hasAny: read(
    async ({ db }): Promise<boolean> =>
      (await firstOf(db.selectFrom("people").select("id").limit(1))) !== null,
  ),

  /** Stores the first person as owner of every project; false if there is a first person already. */
  insertFirst: write(async (session, person: Person): Promise<boolean> => {
    const { db } = session;
    // The key can be taken once, even if two people try at the same moment.
    const entry = { key: "first_person", value: person.id };
    if (!(await isDone(db.insertInto("meta").values(entry).onConflict(doNothing)))) return false;
    await db.insertInto("people").values(person).execute();
    const projects = await db.selectFrom("projects").select("id").execute();
    for (const { id: projectId } of projects) {
      const { id: personId, createdAt } = person;
      await db.insertInto("memberships").values({ personId, projectId, role: "owner", createdAt }).execute();
    }
    await noteChange(session, "person", person.id);
    return true;
  }),

  find: read(
    async ({ db }, id: string): Promise<Person | null> =>
      await firstOf(db.selectFrom("people").selectAll().where("id", "=", id)),
  ),

  findBySignIn: read(
    async ({ db }, { email, signInKey }: SignIn): Promise<Person | null> =>
      await firstOf(db.selectFrom("people").selectAll().where(all({ email, signInKey }))),
  ),

  /** The person who has proven the address. */
  findProven: read(async ({ db }, email: string): Promise<Person | null> => {
    const people = db.selectFrom("people").selectAll().where("email", "=", email);
    return await firstOf(people.where("provenAt", "is not", null));
  }),

  /** The people with that address, proven or not, oldest first. */
  listByEmail: read(async ({ db }, { email, limit }: EmailQuery): Promise<Person[]> => {
    const people = db.selectFrom("people").selectAll().where("email", "=", email);
    return await people.orderBy("createdAt").orderBy("id").limit(limit).execute();
  }),

  setPassword: write(async (session, change: Change): Promise<PersonChange> => {
    const { id, updatedAt } = change;
    const people = session.db.selectFrom("people").select("email");
    const person = await firstOf(people.where(all({ id, updatedAt })));
    return person ? await changeSignIn(session, change, person.email) : "stale";
  }),

  /** Changes a person's address; the new one is not proven yet. */
  setEmail: write(
    async (session, { email, ...change }: Change & Pick<Person, "email">): Promise<PersonChange> =>
      await changeSignIn(session, change, email, { email, provenAt: null }),
  ),

  /** Makes the address that person's alone: the latest proof wins. False if it is no longer their address. */
  prove: write(async (session, proof: Proof): Promise<boolean> => await prove(session, proof, true)),
};

async function changeSignIn(
  session: Session,
  { id, signInKey, now, updatedAt }: Change,
  email: string,
  columns: Partial<Pick<Person, "email" | "provenAt">> = {},
): Promise<PersonChange> {
  if (await isTaken(session, { email, signInKey }, id)) return "taken";
  const update = session.db
    .updateTable("people")
    // Always later than before: a link made for the old password contains the old time.
    .set({ ...columns, signInKey, updatedAt: Math.max(now, updatedAt + 1) })
    .where(all({ id, updatedAt }));
  return (await isNoted(session, update, "person", id)) ? "changed" : "stale";
}

/** Whether another person signs in with that. Until the transaction ends, no other person can start to. */
export async function isTaken(session: Session, { email, signInKey }: SignIn, id: string): Promise<boolean> {
  await lockPeople(session);
  const others = session.db.selectFrom("people").select("id").where("id", "<>", id);
  return (await firstOf(others.where(all({ email, signInKey })))) !== null;
}

/** Records that a person has proven an address; `isMoved` says whether another person's earlier proof is dropped. */
export async function prove(session: Session, { id, email, now }: Proof, isMoved: boolean): Promise<boolean> {
  const { db } = session;
  await lockPeople(session);
  // Locks the row: if the address changes now, the mail to the old one must not prove the new one.
  const locked = db
    .updateTable("people")
    .set((eb) => ({ email: eb.ref("email") }))
    .where(all({ id, email }));
  if (!(await isDone(locked))) return false;
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

/** Serialises changes of what only one person may have: a proven address, a way to sign in. */
async function lockPeople({ db }: Session): Promise<void> {
  await db
    .updateTable("meta")
    .set((eb) => ({ value: eb.ref("value") }))
    .where("key", "=", "first_person")
    .execute();
}
