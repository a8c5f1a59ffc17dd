import { packedWrite, read } from "../operation.ts";
import { isDone } from "../queries.ts";
import { acceptedRows } from "../runs/accepted-runs.ts";
import { addUsage } from "../runs/removal.ts";
import { type FedLine, packFed, type PackedLines, WITHOUT_RUN } from "./batch-lines.ts";
import { BATCH_CODES } from "./line-batches.ts";

type DueQuery = { readonly number: number; readonly until: number; readonly limit: number };
type DueLines = {
  readonly number: number;
  /** How many the batch had when they were read. */
  readonly delayed: number;
  readonly lines: readonly FedLine[];
};
type PackedDue = Omit<DueLines, "lines"> & PackedLines & { readonly indexes: readonly number[] };

/** Lines of batches that have no runs yet because of their delays. */
export const delayedLines = {
  /** The indexes of those whose time comes until then, the first ones first. */
  due: read(async ({ db }, { number, until, limit }: DueQuery): Promise<number[]> => {
    const rows = await db
      .selectFrom("batchLines")
      .select("line")
      .where("batch", "=", number)
      .where("place", "is", null)
      .where("dueAt", ">", WITHOUT_RUN)
      .where("dueAt", "<=", WITHOUT_RUN + until)
      .orderBy("dueAt")
      .orderBy("line")
      .limit(limit)
      .execute();
    return rows.map(({ line }) => line);
  }),

  /** Starts their runs, and returns whether it did: another node may have, or the batch is over. */
  feed: packedWrite(
    ({ number, delayed, lines }: DueLines): PackedDue => {
      const indexes = lines.map(({ line }) => line);
      return { number, delayed, indexes, ...packFed(number, lines) };
    },
    async (session, { number, delayed, indexes, count, lines, accepted }): Promise<boolean> => {
      const { db, sql } = session;
      const left = delayed - count;
      const moved = db
        .updateTable("lineBatches")
        .set({ delayed: left })
        .where("number", "=", number)
        .where("delayed", "=", delayed)
        .where("state", "in", [BATCH_CODES.running, BATCH_CODES.cancelling]);
      if (!(await isDone(moved))) return false;
      // As many may be delayed again, but others: those that were read have their runs by now.
      const still = db
        .selectFrom("batchLines")
        .select("line")
        .where("batch", "=", number)
        .where("line", "in", indexes)
        .where("dueAt", ">", WITHOUT_RUN);
      if ((await still.execute()).length < count) {
        await db.updateTable("lineBatches").set({ delayed }).where("number", "=", number).execute();
        return false;
      }
      await session.updateColumns("batchLines", lines, { match: ["batch", "line"] });
      let bytes = 0;
      if (left === 0) {
        // Blocks with delayed lines have waited for the last of them.
        const { rows } = await sql<{ size: number }>`
          delete from batch_blocks where batch = ${number} and first + line_count <= (
            select fed from line_batches where number = ${number}
          ) returning length(bytes) as size
        `.execute(db);
        bytes = rows.reduce((sum, { size }) => sum + size, 0);
      }
      // Last: Postgres locks a row of `usage` from here on.
      if (accepted) await session.insertCounted(acceptedRows(accepted));
      await addUsage(session, { bytes: -bytes });
      return true;
    },
  ),
};
