import type { Run, RunKey } from "../../model/run.ts";
import { type ColumnBatch, packColumns } from "../column-batch.ts";
import { all, chunks, doNothing, isDone, type StoredKey, storedKey } from "../queries.ts";
import { uuidBytes, uuidText } from "../../kit/ids.ts";
import { type ColumnInsert, read, write } from "../operation.ts";
import { isOver } from "./run-columns.ts";

// The rows that runs with terms have beside their own: their tags, and the times at which they are late.

export type PackedTerms = { readonly tags: ColumnBatch; readonly limits: ColumnBatch };

type Tag = { readonly key: RunKey; readonly tag: string };
type Limit = { readonly key: RunKey; readonly at: number };

const KEY = { numbers: { appNumber: ({ key }: Tag | Limit) => key.appNumber } };
const TAG = { ...KEY, texts: { tag: ({ tag }: Tag) => tag }, uuids: { id: ({ key }: Tag) => key.id } };
const LIMIT = {
  numbers: { ...KEY.numbers, at: ({ at }: Limit) => at },
  texts: {},
  uuids: { id: ({ key }: Limit) => key.id },
};

export function packTerms(runs: readonly Run[]): PackedTerms {
  const tags = runs.flatMap((key) => (key.terms?.tags ?? []).map((tag) => ({ key, tag })));
  const limits = runs.flatMap((key) => {
    const { startBy = null, endBy = null } = key.terms ?? {};
    return [startBy, endBy].flatMap((at) => (at === null ? [] : { key, at }));
  });
  return { tags: packColumns(tags, TAG), limits: packColumns(limits, LIMIT) };
}

export function termRows({ tags, limits }: PackedTerms): ColumnInsert[] {
  const rows: ColumnInsert[] = [
    { table: "runTags", batch: tags },
    { table: "runLimits", batch: limits },
  ];
  return rows.filter(({ batch }) => batch.rowCount > 0);
}

/** `isOver`: the run has ended, or is not stored any more. */
type PassedLimit = RunKey & { readonly at: number; readonly isOver: boolean };

type SeenLimit = RunKey & { readonly at: number; readonly again: number | null };

type PassedRow = StoredKey & { readonly at: number; readonly isOver: number | boolean };

/** The times at which runs are late. */
export const limits = {
  /** Those that have passed, the earliest first. */
  passed: read(
    async (session, query: { readonly now: number; readonly limit: number }): Promise<PassedLimit[]> => {
      const { db, sql } = session;
      const { rows } = await sql<PassedRow>`
        select l.app_number, l.id, l.at, (r.id is null or ${isOver(session, "r")}) as is_over
        from run_limits as l left join runs as r on r.app_number = l.app_number and r.id = l.id
        where l.at <= ${query.now} order by l.at, l.app_number, l.id limit ${query.limit}
      `.execute(db);
      return rows.map((row) => ({ ...row, id: uuidText(row.id), isOver: Boolean(row.isOver) }));
    },
  ),

  /** Removes them; `again`: the run is to be looked at once more then. */
  settle: write(async ({ db }, seen: readonly SeenLimit[]): Promise<void> => {
    const over = seen.filter(({ again }) => again === null);
    // Most runs have ended before they are late: one statement for all of an app. No other row of them is as early.
    const latest = Math.max(...over.map(({ at }) => at));
    for (const [appNumber, group] of Map.groupBy(over, (limit) => limit.appNumber))
      for (const ids of chunks(group.map(({ id }) => uuidBytes(id))))
        await db
          .deleteFrom("runLimits")
          .where("appNumber", "=", appNumber)
          .where("id", "in", ids)
          .where("at", "<=", latest)
          .execute();
    for (const { at, again, ...key } of seen) {
      if (again === null) continue;
      const run = storedKey(key);
      const removed = db.deleteFrom("runLimits").where(all({ ...run, at }));
      // Another service may have seen it first.
      if (!(await isDone(removed))) continue;
      await db
        .insertInto("runLimits")
        .values({ ...run, at: again })
        .onConflict(doNothing)
        .execute();
    }
  }),
};
