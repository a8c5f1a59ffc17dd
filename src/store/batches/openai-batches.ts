import { uuidBytes, uuidText } from "../../kit/ids.ts";
import type { Run } from "../../model/run.ts";
import { storable } from "../column-batch.ts";
import { read, type Row, type Session, write } from "../operation.ts";
import { all, firstOf, isDone } from "../queries.ts";

type Caller = Pick<Run, "accountId" | "user">;
type Key = { readonly appNumber: number; readonly id: string };
type Times = { readonly createdAt: number; readonly expiresAt: number };
type Page = {
  readonly appNumber: number;
  readonly limit: number;
  /** The id before the first one of the page. */
  readonly after?: string;
  readonly order: "asc" | "desc";
  /** Only those of this caller. */
  readonly caller?: Caller;
};
type Removal = { readonly now: number; readonly limit: number };

/** A file of requests. */
export type BatchFile = Key &
  Caller &
  Times & {
    readonly number: number;
    readonly name: string;
    readonly purpose: string;
    readonly bytes: number;
    readonly isWhole: boolean;
  };
type NewFile = Omit<BatchFile, "number" | "isWhole" | "bytes">;
type Owner = Pick<Key, "appNumber"> & Pick<Caller, "accountId">;
type Part = { readonly number: number; readonly part: number; readonly bytes: Uint8Array };

/** A batch as a client of OpenAI made it; `details` is JSON. */
export type OpenAiBatch = Key & Caller & Times & { readonly details: string };
type Keyed = { readonly keyHash: Uint8Array; readonly fingerprint: Uint8Array };
type NewBatch = OpenAiBatch & { readonly key: Keyed | null; readonly since: number };
type KeyQuery = Pick<Key, "appNumber"> & Pick<Keyed, "keyHash"> & { readonly since: number };

/** Files of requests, in parts. */
export const batchFiles = {
  insert: write(async ({ db }, { id, user, name, ...rest }: NewFile): Promise<number> => {
    const row = { ...rest, name: storable(name), id: uuidBytes(id), callerUser: user, bytes: 0, isWhole: 0 };
    const made = await firstOf(db.insertInto("batchFiles").values(row).returning("number"));
    return made!.number;
  }),

  /** Stores the next part. False if the file is gone, or the account's files of the app would have more bytes than that. */
  append: write(async ({ db, sql }, part: Part & Owner & { readonly maxBytes: number }): Promise<boolean> => {
    const { number, appNumber, accountId, maxBytes, bytes } = part;
    const isOwn = accountId === null ? sql`account_id is null` : sql`account_id = ${accountId}`;
    const { rows } = await sql<{ used: number | string }>`
        select coalesce(sum(bytes), 0) as used from batch_files where app_number = ${appNumber} and ${isOwn}
      `.execute(db);
    if (Number(rows[0]?.used ?? 0) + bytes.length > maxBytes) return false;
    const grown = db.updateTable("batchFiles").set((eb) => ({ bytes: eb("bytes", "+", bytes.length) }));
    if (!(await isDone(grown.where(all({ number, isWhole: 0 }))))) return false;
    await db.insertInto("batchFileParts").values({ file: number, part: part.part, bytes }).execute();
    return true;
  }),

  /** All of it has arrived. */
  finish: write(
    async ({ db }, { number, ...rest }: { number: number; purpose: string; expiresAt: number }) => {
      const update = db.updateTable("batchFiles").set({ ...rest, isWhole: 1 });
      return await isDone(update.where("number", "=", number));
    },
  ),

  find: read(async ({ db }, { appNumber, id }: Key): Promise<BatchFile | null> => {
    const query = db.selectFrom("batchFiles").selectAll();
    const row = await firstOf(query.where(all({ appNumber, id: uuidBytes(id), isWhole: 1 })));
    return row && fileFromRow(row);
  }),

  list: read(async ({ db }, page: Page & { readonly purpose?: string }): Promise<BatchFile[]> => {
    let query = db
      .selectFrom("batchFiles")
      .selectAll()
      .where(all({ appNumber: page.appNumber, isWhole: 1 }));
    if (page.purpose !== undefined) query = query.where("purpose", "=", storable(page.purpose));
    if (page.after !== undefined)
      query = query.where("id", page.order === "asc" ? ">" : "<", uuidBytes(page.after));
    if (page.caller)
      query = query
        .where("accountId", "=", page.caller.accountId)
        .where("callerUser", page.caller.user === null ? "is" : "=", page.caller.user);
    return (await query.orderBy("id", page.order).limit(page.limit).execute()).map(fileFromRow);
  }),

  /** A part of a file; null if there is none. */
  part: read(async ({ db }, { number, part }: Pick<Part, "number" | "part">): Promise<Uint8Array | null> => {
    const query = db
      .selectFrom("batchFileParts")
      .select("bytes")
      .where(all({ file: number, part }));
    return (await firstOf(query))?.bytes ?? null;
  }),

  remove: write(async (session, { appNumber, id }: Key): Promise<boolean> => {
    const query = session.db.selectFrom("batchFiles").select("number");
    const row = await firstOf(query.where(all({ appNumber, id: uuidBytes(id) })));
    if (row) await removeFile(session, row.number);
    return row !== null;
  }),

  /** Removes a file that has expired; returns how many. */
  expire: write(async (session, { now }: Removal): Promise<number> => {
    const query = session.db.selectFrom("batchFiles").select("number").where("expiresAt", "<", now);
    const row = await firstOf(query.orderBy("expiresAt").limit(1));
    if (row) await removeFile(session, row.number);
    return row ? 1 : 0;
  }),
};

/** Batches as clients of OpenAI made them. */
export const openaiBatches = {
  /** False if another one has the key. One that was made long ago gives it up. */
  insert: write(async ({ db }, { id, user, key, since, ...rest }: NewBatch): Promise<boolean> => {
    const { appNumber } = rest;
    if (key)
      await db
        .updateTable("openaiBatches")
        .set({ keyHash: null })
        .where(all({ appNumber, keyHash: key.keyHash }))
        .where("createdAt", "<=", since)
        .execute();
    const { keyHash = null, fingerprint = null } = key ?? {};
    const row = { ...rest, id: uuidBytes(id), callerUser: user, keyHash, fingerprint };
    const inserted = db
      .insertInto("openaiBatches")
      .values(row)
      .onConflict((conflict) => conflict.doNothing());
    return await isDone(inserted);
  }),

  /** The batch that has an idempotency key, made after `since`, and what the key was used for. */
  findByKey: read(async ({ db }, { appNumber, keyHash, since }: KeyQuery) => {
    const query = db.selectFrom("openaiBatches").selectAll().where(all({ appNumber, keyHash }));
    const row = await firstOf(query.where("keyHash", "is not", null).where("createdAt", ">", since));
    return row && { batch: batchFromRow(row), fingerprint: row.fingerprint };
  }),

  find: read(async ({ db }, { appNumber, id }: Key): Promise<OpenAiBatch | null> => {
    const query = db.selectFrom("openaiBatches").selectAll();
    const row = await firstOf(query.where(all({ appNumber, id: uuidBytes(id) })));
    return row && batchFromRow(row);
  }),

  list: read(async ({ db }, { appNumber, limit, after, order, caller }: Page): Promise<OpenAiBatch[]> => {
    let query = db.selectFrom("openaiBatches").selectAll().where("appNumber", "=", appNumber);
    if (after !== undefined) query = query.where("id", order === "asc" ? ">" : "<", uuidBytes(after));
    if (caller)
      query = query
        .where("accountId", "=", caller.accountId)
        .where("callerUser", caller.user === null ? "is" : "=", caller.user);
    return (await query.orderBy("id", order).limit(limit).execute()).map(batchFromRow);
  }),

  /** Removes some that have expired; returns how many. */
  expire: write(async ({ db, sql }, { now, limit }: Removal): Promise<number> => {
    const { numAffectedRows } = await sql`
      delete from openai_batches where number in (
        select number from openai_batches where expires_at < ${now} order by expires_at limit ${limit}
      )
    `.execute(db);
    return Number(numAffectedRows ?? 0n);
  }),
};

async function removeFile({ db }: Session, number: number): Promise<void> {
  await db.deleteFrom("batchFileParts").where("file", "=", number).execute();
  await db.deleteFrom("batchFiles").where("number", "=", number).execute();
}

function fileFromRow({ id, callerUser: user, isWhole, ...row }: Row<"batchFiles">): BatchFile {
  return { ...row, id: uuidText(id), user, isWhole: isWhole === 1 };
}

function batchFromRow({ id, callerUser: user, ...row }: Row<"openaiBatches">): OpenAiBatch {
  const { appNumber, accountId, details, createdAt, expiresAt } = row;
  return { id: uuidText(id), appNumber, accountId, user, details, createdAt, expiresAt };
}
