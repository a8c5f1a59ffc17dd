import { firstIdAt, uuidBytes, uuidText } from "../../kit/ids.ts";
import {
  LINE_BATCH_MOVES,
  LINE_BATCH_STATES,
  type LineBatch,
  type LineBatchMove,
  type LineBatchState,
  type Rate,
} from "../../model/line-batch.ts";
import type { NewDelivery } from "../../model/delivery.ts";
import type { Wishes } from "../../model/terms.ts";
import type { RunTrace } from "../../model/trace.ts";
import { type ColumnBatch, packColumns } from "../column-batch.ts";
import { packedWrite, read, type Row, type Session, write } from "../operation.ts";
import { all, chunks, firstOf, isDone } from "../queries.ts";
import { packDeliveries } from "../runs/deliveries.ts";
import { addUsage } from "../runs/removal.ts";

/** A batch that is about to be uploaded. */
export type NewLineBatch = Pick<
  LineBatch,
  | "id"
  | "appNumber"
  | "functionName"
  | "ip"
  | "accountId"
  | "user"
  | "trace"
  | "keyHash"
  | "fingerprint"
  | "wishes"
  | "webhookEndpoint"
  | "sealedSecret"
  | "retryOf"
  | "createdAt"
>;

/** Lines of an upload, and the digest of their bytes. */
type LineBlock = {
  readonly first: number;
  readonly lineCount: number;
  readonly bytes: Uint8Array;
  readonly digest: Uint8Array;
};

/** A batch that has not ended, with the name of its app, and whether that is deleted. */
export type OpenBatch = LineBatch & {
  readonly projectId: string;
  readonly name: string;
  readonly isOrphan: boolean;
};

/** The account has too many batches of the app that have not ended, or another batch has the key. */
type Refusal = "too_many" | "key_taken";
/** Of an account and an app. Each takes part in every look at what may go on. */
export const MAX_OPEN_BATCHES = 100;

type BatchKey = { readonly appNumber: number; readonly id: string };
type KeyQuery = { readonly appNumber: number; readonly keyHash: Uint8Array; readonly since: number };
type Held = { readonly number: number; readonly fence: number };
type Stored = Held & { readonly block: LineBlock; readonly now: number };
type PackedBlock = Held & {
  readonly blocks: ColumnBatch;
  readonly first: number;
  readonly lineCount: number;
  readonly byteCount: number;
  readonly now: number;
};
type ListQuery = {
  readonly appNumber: number;
  readonly limit: number;
  readonly before?: string;
  /** Only those of this caller. */
  readonly caller?: { readonly accountId: string; readonly user: string | null };
};
type BlockQuery = { readonly number: number; readonly from: number; readonly limit: number };
type Ending = { readonly number: number; readonly now: number; readonly delivery: NewDelivery | null };
type PackedEnding = Omit<Ending, "delivery"> & { readonly deliveries: ColumnBatch | null };
type Removal = { readonly cutoff: number; readonly limit: number };

// A state is stored as its index in the model's list, which may only grow at its end.
export const BATCH_CODES = Object.fromEntries(
  LINE_BATCH_STATES.map((state, code) => [state, code]),
) as Record<LineBatchState, number>;

const BLOCK = {
  numbers: {
    batch: ({ number }: Stored) => number,
    first: ({ block }: Stored) => block.first,
    lineCount: ({ block }: Stored) => block.lineCount,
  },
  texts: {},
  uuids: {},
  blobs: { bytes: ({ block }: Stored) => block.bytes, digest: ({ block }: Stored) => block.digest },
};

/** Batches of lines, and the lines that wait for their turn. */
export const lineBatches = {
  /** Stores a batch; an earlier one that had its key and ended long ago gives it up. */
  insert: write(
    async ({ db }, batch: NewLineBatch & { readonly since: number }): Promise<LineBatch | Refusal> => {
      const { id, user, retryOf, wishes, trace, since, ...rest } = batch;
      const { appNumber, accountId, keyHash } = rest;
      const open = db
        .selectFrom("lineBatches")
        .select("number")
        .where("appNumber", "=", appNumber)
        .where("accountId", accountId === null ? "is" : "=", accountId)
        .where("completedAt", "is", null);
      if ((await open.limit(MAX_OPEN_BATCHES).execute()).length === MAX_OPEN_BATCHES) return "too_many";
      if (keyHash !== null)
        await db
          .updateTable("lineBatches")
          .set({ keyHash: null })
          .where(all({ appNumber, keyHash }))
          .where("createdAt", "<=", since)
          .where("state", "<>", BATCH_CODES.uploading)
          .execute();
      const row = {
        ...rest,
        id: uuidBytes(id),
        callerUser: user,
        retryOf: retryOf === null ? null : uuidBytes(retryOf),
        wishes: wishes && JSON.stringify(wishes),
        trace: trace && JSON.stringify(trace),
        state: BATCH_CODES.uploading,
        fence: 1,
        total: 0,
        totalBytes: 0,
        floor: firstIdAt(batch.createdAt),
        updatedAt: batch.createdAt,
      };
      const inserted = db
        .insertInto("lineBatches")
        .values(row)
        .onConflict((conflict) => conflict.doNothing());
      const made = await firstOf(inserted.returningAll());
      return made ? batchFromRow(made) : "key_taken";
    },
  ),

  find: read(async ({ db }, { appNumber, id }: BatchKey): Promise<LineBatch | null> => {
    const query = db.selectFrom("lineBatches").selectAll();
    const row = await firstOf(query.where(all({ appNumber, id: uuidBytes(id) })));
    return row && batchFromRow(row);
  }),

  /** The batch that has an idempotency key: made after `since`, or still being uploaded. */
  findByKey: read(async ({ db }, { appNumber, keyHash, since }: KeyQuery): Promise<LineBatch | null> => {
    const query = db.selectFrom("lineBatches").selectAll().where(all({ appNumber, keyHash }));
    const row = await firstOf(query.where("keyHash", "is not", null));
    const batch = row && batchFromRow(row);
    return batch && (batch.state === "uploading" || batch.createdAt > since) ? batch : null;
  }),

  /** An app's batches, newest first. */
  list: read(async ({ db }, { appNumber, limit, before, caller }: ListQuery): Promise<LineBatch[]> => {
    let query = db.selectFrom("lineBatches").selectAll().where("appNumber", "=", appNumber);
    if (before) query = query.where("id", "<", uuidBytes(before));
    if (caller)
      query = query
        .where("accountId", "=", caller.accountId)
        .where("callerUser", caller.user === null ? "is" : "=", caller.user);
    return (await query.orderBy("id", "desc").limit(limit).execute()).map(batchFromRow);
  }),

  /** The batches that have not ended, oldest first, with their apps, and whether these are deleted. */
  open: read(async ({ db }): Promise<OpenBatch[]> => {
    const rows = await db
      .selectFrom("lineBatches")
      .innerJoin("apps", "apps.number", "lineBatches.appNumber")
      .selectAll("lineBatches")
      .select(["apps.projectId", "apps.name", "apps.deletedAt"])
      .where("lineBatches.completedAt", "is", null)
      .orderBy("lineBatches.number")
      .execute();
    return rows.map(({ deletedAt, projectId, name, ...row }) => {
      return { ...batchFromRow(row), projectId, name, isOrphan: deletedAt !== null };
    });
  }),

  /** Begins another connection's upload of the same batch: what earlier ones still send is refused. Null if it is over. */
  resume: write(async ({ db }, { number, now }: { readonly number: number; readonly now: number }) => {
    const update = db
      .updateTable("lineBatches")
      .set((eb) => ({ fence: eb("fence", "+", 1), updatedAt: now }))
      .where("number", "=", number)
      .where("state", "=", BATCH_CODES.uploading);
    const row = await firstOf(update.returningAll());
    return row && batchFromRow(row);
  }),

  /** Stores lines behind those that are stored. False if another connection has taken over, or the batch is over. */
  append: packedWrite(
    ({ number, fence, block, now }: Stored): PackedBlock => ({
      number,
      fence,
      blocks: packColumns([{ number, fence, block, now }], BLOCK),
      first: block.first,
      lineCount: block.lineCount,
      byteCount: block.bytes.length,
      now,
    }),
    async (session, { number, fence, blocks, first, lineCount, byteCount, now }): Promise<boolean> => {
      const update = session.db
        .updateTable("lineBatches")
        .set((eb) => ({
          total: eb("total", "+", lineCount),
          totalBytes: eb("totalBytes", "+", byteCount),
          updatedAt: now,
        }))
        .where(all({ number, fence, total: first, state: BATCH_CODES.uploading }));
      if (!(await isDone(update))) return false;
      const { bytes } = await session.insertColumns("batchBlocks", blocks, ["bytes"]);
      await addUsage(session, { bytes });
      return true;
    },
  ),

  /** What is stored of an upload: the digests of its blocks, from a line on. */
  digests: read(async ({ db }, { number, from, limit }: BlockQuery) => {
    const query = db.selectFrom("batchBlocks").select(["first", "lineCount", "digest"]);
    return await query
      .where("batch", "=", number)
      .where("first", ">=", from)
      .orderBy("first")
      .limit(limit)
      .execute();
  }),

  /** The block that has a line; null if it is not stored any more. */
  block: read(async ({ db }, { number, line }: { readonly number: number; readonly line: number }) => {
    const query = db.selectFrom("batchBlocks").select(["first", "lineCount", "bytes"]);
    const before = query.where("batch", "=", number).where("first", "<=", line);
    return await firstOf(before.orderBy("first", "desc").limit(1));
  }),

  /** All lines are stored. False if another connection has taken over, or the batch is over. */
  start: write(async ({ db }, { number, fence, now }: Held & { readonly now: number }): Promise<boolean> => {
    const moved = move({ db }, "start", number).set({ uploadedAt: now, updatedAt: now, rateAt: now });
    return await isDone(moved.where("fence", "=", fence));
  }),

  /** Ends a batch whose upload will not be continued. `unless`: it has been continued since. */
  abandon: write(
    async (session, { number, now, fence }: Ending & { readonly fence?: number }): Promise<boolean> => {
      let moved = move(session, "abandon", number).set({
        updatedAt: now,
        completedAt: now,
        total: 0,
        keyHash: null,
      });
      if (fence !== undefined) moved = moved.where("fence", "=", fence);
      if (!(await isDone(moved))) return false;
      await removeBlocks(session, number);
      return true;
    },
  ),

  /** Lines that have not ended are to be cancelled. False if the batch has ended, or is being cancelled. */
  cancel: write(
    async (session, { number, now }: { readonly number: number; readonly now: number }): Promise<boolean> =>
      await isDone(move(session, "cancel", number).set({ updatedAt: now })),
  ),

  /** Ends a batch of which every line has ended. False if there are others. */
  end: packedWrite(packEnding, async (session, { number, now, deliveries }): Promise<boolean> => {
    for (const by of ["complete", "finishCancel"] as const) {
      const moved = move(session, by, number).set({ completedAt: now, updatedAt: now, sealedSecret: null });
      if (!(await isDone(moved.whereRef("ended", ">=", "total")))) continue;
      await removeBlocks(session, number);
      if (deliveries) await session.insertColumns("deliveries", deliveries);
      return true;
    }
    return false;
  }),

  /** Ends a batch of a deleted app: its lines are not looked at any more. False if it has ended. */
  drop: packedWrite(packEnding, async (session, { number, now, deliveries }): Promise<boolean> => {
    const update = session.db
      .updateTable("lineBatches")
      .set({ state: BATCH_CODES.cancelled, completedAt: now, updatedAt: now, sealedSecret: null });
    if (!(await isDone(update.where("number", "=", number).where("completedAt", "is", null)))) return false;
    await removeBlocks(session, number);
    if (deliveries) await session.insertColumns("deliveries", deliveries);
    return true;
  }),

  /** Removes some lines of batches that ended before the cutoff, and batches without any; returns how much it removed. */
  remove: write(async (session, { cutoff, limit }: Removal): Promise<number> => {
    const { db, sql } = session;
    const { rows } = await sql<{ number: number }>`
      select number from line_batches where completed_at is not null and completed_at < ${cutoff}
      order by completed_at limit 1
    `.execute(db);
    const [oldest] = rows;
    if (!oldest) return 0;
    const { numAffectedRows } = await sql`
      delete from batch_lines where (batch, line) in (
        select batch, line from batch_lines where batch = ${oldest.number} order by line limit ${limit}
      )
    `.execute(db);
    const removed = Number(numAffectedRows ?? 0n);
    if (removed === limit) return limit;
    await db.deleteFrom("lineBatches").where("number", "=", oldest.number).execute();
    return limit;
  }),
};

function packEnding({ delivery, ...ending }: Ending): PackedEnding {
  return { ...ending, deliveries: delivery && packDeliveries([delivery]) };
}

/** An update that moves a batch, if it is in a state from which it may be moved. */
function move({ db }: Pick<Session, "db">, by: LineBatchMove, number: number) {
  const { from, to } = LINE_BATCH_MOVES[by];
  const codes = from.map((state) => BATCH_CODES[state]);
  return db
    .updateTable("lineBatches")
    .set({ state: BATCH_CODES[to] })
    .where("number", "=", number)
    .where("state", "in", codes);
}

/** Removes the lines of a batch that still wait. */
async function removeBlocks(session: Session, number: number): Promise<void> {
  const { db } = session;
  const rows = await db.selectFrom("batchBlocks").select("first").where("batch", "=", number).execute();
  let bytes = 0;
  for (const firsts of chunks(rows.map(({ first }) => first))) {
    const removed = await session.sql<{ size: number }>`
      delete from batch_blocks where batch = ${number} and first in (${session.sql.join(firsts)})
      returning length(bytes) as size
    `.execute(db);
    for (const { size } of removed.rows) bytes += size;
  }
  await addUsage(session, { bytes: -bytes });
}

/** A batch as it is stored. */
function batchFromRow(row: Row<"lineBatches">): LineBatch {
  const { id, callerUser: user, wishes, trace, retryOf, state: code, rate, rateAt, ...others } = row;
  const { floor: _floor, sweptTo: _sweptTo, ...rest } = others;
  const state = LINE_BATCH_STATES[code];
  if (state === undefined) throw new RangeError(`a stored batch has the unknown state ${code}`);
  return {
    ...rest,
    id: uuidText(id),
    user,
    wishes: wishes === null ? null : (JSON.parse(wishes) as Wishes),
    trace: trace === null ? null : (JSON.parse(trace) as RunTrace),
    retryOf: retryOf && uuidText(retryOf),
    state,
    rate: { perSecond: rate, at: rateAt } satisfies Rate,
  };
}
