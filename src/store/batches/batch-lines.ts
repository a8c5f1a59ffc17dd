import { uuidBytes, uuidText } from "../../kit/ids.ts";
import type { EndedLine, Rate } from "../../model/line-batch.ts";
import type { RunKey, RunState } from "../../model/run.ts";
import { type ColumnBatch, packColumns } from "../column-batch.ts";
import { heavyRead, packedWrite, read, type Row, type Session, write } from "../operation.ts";
import { isDone } from "../queries.ts";
import { acceptedRows, type AcceptedRun, packAccepted } from "../runs/accepted-runs.ts";
import { PAYLOAD_COLUMNS, payloadFromRow } from "../runs/payloads.ts";
import { addUsage } from "../runs/removal.ts";
import { isInState, isOver, nameOfState, RUN_COLUMNS, runFromRow, STATE_CODES } from "../runs/run-columns.ts";
import { BATCH_CODES } from "./line-batches.ts";

/**
 * A delayed line has no run until shortly before its time: a million queued runs would be in the way of others. Until then
 * its `due_at` is so much later than its time, so that it is not among the lines that may have ended.
 */
export const WITHOUT_RUN = 2 ** 52;
/** Later than any time. */
export const ALL_TIMES = WITHOUT_RUN - 1;

/** A line whose turn has come: its run, how it ends without one, or when it gets one. */
export type FedLine = {
  readonly line: number;
  readonly label: string | null;
} & (
  | { readonly accepted: AcceptedRun }
  | { readonly end: LineEnd }
  /** It gets its run later. */
  | { readonly delayedUntil: number }
);

type LineEnd = { readonly state: RunState; readonly errorCode: string; readonly errorMessage: string };

/** The next lines of a batch. */
type Feed = {
  readonly number: number;
  /** How many were fed before them. */
  readonly fed: number;
  readonly lines: readonly FedLine[];
  /** Lines before this one are needed no more, and wait in no block. */
  readonly doneBefore: number;
};

/** Lines, and their runs. */
export type PackedLines = {
  readonly count: number;
  readonly lines: ColumnBatch;
  readonly accepted: ReturnType<typeof packAccepted> | null;
};
type PackedFeed = Omit<Feed, "lines"> & PackedLines & { readonly delayed: number };

/** Of a line without a run, the place is given when it is collected, as with others: then it has ended already. */
type OpenLine = FedLine & { readonly number: number };

const LINE = {
  numbers: {
    batch: ({ number }: OpenLine) => number,
    line: ({ line }: OpenLine) => line,
    dueAt: (fed: OpenLine) => {
      if ("delayedUntil" in fed) return WITHOUT_RUN + fed.delayedUntil;
      return "accepted" in fed ? (fed.accepted.run.dueAt ?? 0) : 0;
    },
    state: (fed: OpenLine) => ("end" in fed ? STATE_CODES[fed.end.state] : null),
  },
  texts: {
    label: ({ label }: OpenLine) => label,
    errorCode: (fed: OpenLine) => ("end" in fed ? fed.end.errorCode : null),
    errorMessage: (fed: OpenLine) => ("end" in fed ? fed.end.errorMessage : null),
  },
  uuids: {},
  blobs: { runId: (fed: OpenLine) => ("accepted" in fed ? uuidBytes(fed.accepted.run.id) : null) },
};

/** Lines of a batch as columns, with the rows of their runs. */
export function packFed(number: number, lines: readonly FedLine[]): PackedLines {
  const open = lines.map((line) => ({ ...line, number }));
  const accepted = lines.flatMap((line) => ("accepted" in line ? [line.accepted] : []));
  return {
    count: lines.length,
    lines: packColumns(open, LINE),
    accepted: accepted.length > 0 ? packAccepted(accepted) : null,
  };
}

type OpenQuery = {
  readonly number: number;
  readonly appNumber: number;
  /** Lines that are delayed beyond this time are left out. */
  readonly now: number;
  readonly limit: number;
};

/** How many lines are open, and of these, have ended. */
type OpenCount = { readonly open: number; readonly over: number };

type Collection = OpenQuery & {
  /** As they were read. */
  readonly ended: number;
  readonly rate: Rate;
};

type EndedRow = {
  readonly line: number;
  readonly state: number;
  readonly completedAt: number | null;
};
type Placed = EndedRow & { readonly number: number; readonly place: number };

const PLACE = {
  numbers: {
    batch: ({ number }: Placed) => number,
    line: ({ line }: Placed) => line,
    place: ({ place }: Placed) => place,
    state: ({ state }: Placed) => state,
  },
  texts: {},
  uuids: {},
};

type PageQuery = {
  readonly number: number;
  readonly order: "input" | "finished";
  /** The index, or the place, of the last line before the page. */
  readonly after: number;
  readonly limit: number;
};

/** Runs, with their inputs or results of at most so many bytes. */
type RunsQuery = {
  readonly appNumber: number;
  readonly ids: readonly string[];
  readonly side: "input" | "result";
  readonly maxBytes: number;
};

const SIDELESS_COLUMNS = PAYLOAD_COLUMNS.filter((name) => name !== "input" && name !== "result");

/** A line of a page, and the bytes of its result. */
type PageLine = EndedLine & { readonly bytes: number };

/** The lines of batches whose turn has come, and how they end. */
export const batchLines = {
  /** Starts the runs of the next lines, and returns whether it did: another node may have, or the batch is over. */
  feed: packedWrite(
    ({ number, fed, lines, doneBefore }: Feed): PackedFeed => ({
      number,
      fed,
      doneBefore,
      delayed: lines.filter((line) => "delayedUntil" in line).length,
      ...packFed(number, lines),
    }),
    async (session, { number, fed, count, doneBefore, delayed, lines, accepted }): Promise<boolean> => {
      const { db, sql } = session;
      const update = db
        .updateTable("lineBatches")
        .set((eb) => ({ fed: fed + count, delayed: eb("delayed", "+", delayed) }))
        .where("number", "=", number)
        .where("fed", "=", fed)
        .where("state", "in", [BATCH_CODES.running, BATCH_CODES.cancelling]);
      if (!(await isDone(update))) return false;
      await session.insertColumns("batchLines", lines);
      // A block with delayed lines stays.
      const { rows } = await sql<{ size: number }>`
        delete from batch_blocks as b where batch = ${number} and first + line_count <= ${doneBefore}
          and first + line_count > ${fed} and not exists (
            select 1 from batch_lines as l where l.batch = ${number} and l.line >= b.first
              and l.line < b.first + b.line_count and l.due_at > ${WITHOUT_RUN}
          )
        returning length(bytes) as size
      `.execute(db);
      // Last: Postgres locks a row of `usage` from here on.
      if (accepted) await session.insertCounted(acceptedRows(accepted));
      await addUsage(session, { bytes: -rows.reduce((sum, { size }) => sum + size, 0) });
      return true;
    },
  ),

  /** How many lines wait for their ends that may have ended, up to a limit; and how many of these have. */
  openCount: read(async (session, query: OpenQuery): Promise<OpenCount> => {
    const { sql, db } = session;
    const { rows } = await sql<OpenCount>`
      select count(*) as open, coalesce(sum(case when ${isOver(session, "l")} then 1 else 0 end), 0) as over
      from ${openLines(session, query)}
    `.execute(db);
    return rows[0]!;
  }),

  /** How many open lines of each batch are running. */
  runningCounts: read(async (session, queries: readonly OpenQuery[]): Promise<Map<number, number>> => {
    const { sql, db } = session;
    if (queries.length === 0) return new Map();
    const counts = queries.map(
      (query) => sql`select cast(${query.number} as integer) as number, (
        select coalesce(sum(case when ${isInState(session, "running", "l")} then 1 else 0 end), 0)
        from ${openLines(session, query)}
      ) as running`,
    );
    const { rows } = await sql<{ number: number; running: number | string }>`
      ${sql.join(counts, sql` union all `)}
    `.execute(db);
    return new Map(rows.map(({ number, running }) => [number, Number(running)]));
  }),

  /** The runs of open lines, of delayed ones too; after a line, by index. */
  openRuns: heavyRead(
    async ({ db }, query: { readonly number: number; readonly after: number; readonly limit: number }) => {
      const rows = await db
        .selectFrom("batchLines")
        .select(["line", "runId"])
        .where("batch", "=", query.number)
        .where("line", ">", query.after)
        .where("place", "is", null)
        .where("runId", "is not", null)
        .orderBy("line")
        .limit(query.limit)
        .execute();
      return rows.map(({ line, runId }) => ({ line, runId: uuidText(runId!) }));
    },
  ),

  /**
   * Gives the lines that have ended their places, in the order in which they ended, and counts them; returns how many.
   * None if another node has counted since.
   */
  collect: write(async (session, collection: Collection): Promise<number> => {
    const { sql, db } = session;
    const { number, appNumber, ended, rate } = collection;
    const { rows } = await sql<EndedRow>`
      select line, state, (select completed_at from runs where app_number = ${appNumber} and id = run_id) as completed_at
      from ${openLines(session, collection)} where ${isOver(session, "l")}
      order by completed_at, line limit ${collection.limit}
    `.execute(db);
    const count = (state: RunState) => rows.filter((row) => row.state === STATE_CODES[state]).length;
    const { perSecond, at } = rate;
    const [succeeded, failed] = [count("success"), count("failure")];
    const update = db
      .updateTable("lineBatches")
      .set((eb) => ({
        ended: ended + rows.length,
        succeeded: eb("succeeded", "+", succeeded),
        failed: eb("failed", "+", failed),
        rate: perSecond,
        rateAt: at,
      }))
      .where("number", "=", number)
      .where("ended", "=", ended)
      .where("completedAt", "is", null);
    if (rows.length === 0 || !(await isDone(update))) return 0;
    const placed = rows.map((row, i) => ({ ...row, number, place: ended + i + 1 }));
    await session.updateColumns("batchLines", packColumns(placed, PLACE), { match: ["batch", "line"] });
    return rows.length;
  }),

  /** Lines that have ended, in order, without their results. */
  page: read(async (session, query: PageQuery): Promise<PageLine[]> => {
    const { sql, db } = session;
    const by = query.order === "input" ? sql`l.line` : sql`l.place`;
    const { rows } = await sql<Omit<Row<"batchLines">, "batch" | "dueAt"> & { bytes: number }>`
      select l.line, l.label, l.run_id, l.place, l.state, l.error_code, l.error_message,
        coalesce((
          select coalesce(p.result_bytes, length(p.result)) from payloads as p
          where p.app_number = b.app_number and p.id = l.run_id
        ), 0) as bytes
      from batch_lines as l join line_batches as b on b.number = l.batch
      where l.batch = ${query.number} and ${by} > ${query.after} and l.place is not null
      order by ${by} limit ${query.limit}
    `.execute(db);
    return rows.map(({ runId, place, state, ...line }) => ({
      ...line,
      runId: runId && uuidText(runId),
      place: place!,
      state: nameOfState(state!),
    }));
  }),

  /** Records of runs, with one side of their payloads; those that are not stored any more are left out. */
  runs: read(async ({ db, sql }, { appNumber, ids, side, maxBytes }: RunsQuery) => {
    if (ids.length === 0) return [];
    const column = sql.ref(`payloads.${side}`);
    const bytes = sql<Uint8Array | null>`case when length(${column}) <= ${maxBytes} then ${column} end`;
    const rows = await db
      .selectFrom("runs")
      .leftJoin("payloads", (join) =>
        join.onRef("payloads.appNumber", "=", "runs.appNumber").onRef("payloads.id", "=", "runs.id"),
      )
      .select(RUN_COLUMNS.map((name) => `runs.${name}` as const))
      .select(SIDELESS_COLUMNS.map((name) => `payloads.${name}` as const))
      .select(bytes.as("bytes"))
      .where("runs.appNumber", "=", appNumber)
      .where("runs.id", "in", ids.map(uuidBytes))
      .execute();
    const nothing = { input: null, result: null };
    return rows.map((row) => ({
      run: runFromRow(row),
      payload: payloadFromRow({ ...row, ...nothing, [side]: row.bytes }),
    }));
  }),

  /** Lines with runs that failed, by index, after one. */
  failures: read(async (session, query: Omit<PageQuery, "order">) => {
    const { sql, db } = session;
    const { rows } = await sql<{ line: number; label: string | null; runId: Uint8Array }>`
      select line, label, run_id from batch_lines
      where batch = ${query.number} and line > ${query.after} and run_id is not null
        and state = ${sql.lit(STATE_CODES.failure)}
      order by line limit ${query.limit}
    `.execute(db);
    return rows.map(({ runId, ...line }) => ({ ...line, runId: uuidText(runId) }));
  }),

  /** The id of the batch that has the run, and the line's index. */
  ofRun: read(async ({ db }, { id }: RunKey): Promise<{ id: string; line: number } | null> => {
    const row = await db
      .selectFrom("batchLines")
      .innerJoin("lineBatches", "lineBatches.number", "batchLines.batch")
      .select(["lineBatches.id", "batchLines.line"])
      .where("batchLines.runId", "=", uuidBytes(id))
      .executeTakeFirst();
    return row ? { id: uuidText(row.id), line: row.line } : null;
  }),
};

/**
 * The open lines `l` of a batch that may have ended, each with the state of its run. One whose run is not stored any more
 * has ended. Not a join: Postgres without statistics would compare each line with all runs of the app.
 */
function openLines({ sql }: Pick<Session, "sql">, { number, appNumber, now, limit }: OpenQuery) {
  return sql`(
    select line, run_id, coalesce(
      state, (select state from runs where app_number = ${appNumber} and id = run_id), ${sql.lit(STATE_CODES.failure)}
    ) as state
    from batch_lines where batch = ${number} and place is null and due_at <= ${now}
    order by due_at, line limit ${limit}
  ) as l`;
}
