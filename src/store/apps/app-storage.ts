import { heavyRead } from "../operation.ts";
import { PAYLOAD_SIZE } from "../runs/payloads.ts";

/** An app, and what of it is counted as it comes and goes. */
export type StoredApp = {
  readonly number: number;
  readonly projectId: string;
  readonly name: string;
  readonly isDeleted: boolean;
  readonly logBytes: number;
  readonly builds: number;
};

/** Tables that nobody keeps count of for each app. */
type CountedTable = "runs" | "payloads" | "transcripts";

/** The rows of one app that come after a run, or from the first one on. */
export type CountStep = {
  readonly table: CountedTable;
  readonly appNumber: number;
  readonly after: Uint8Array | null;
};

/** What a step found; `last` is where the next one goes on, null after the last. */
export type CountedRows = { readonly rows: number; readonly bytes: number; readonly last: Uint8Array | null };

/** Runs that one step looks at: a few milliseconds, or some hundred when they have to come from the disk. */
export const STEP_RUNS = 2_000;

const BYTES: Readonly<Record<CountedTable, string>> = {
  runs: "0",
  payloads: PAYLOAD_SIZE,
  transcripts: "length(bytes)",
};

/** Who uses what, for an operator who asks: read beside everything else, and never much at once. */
export const appStorage = {
  /** Every app that is there, and those that were deleted and have left something. */
  list: heavyRead(async ({ sql, db }): Promise<StoredApp[]> => {
    const { rows } = await sql<Record<keyof StoredApp, string | number>>`
      select a.number, a.project_id, a.name,
        case when a.deleted_at is null then 0 else 1 end as is_deleted,
        (select coalesce(sum(t.bytes), 0) from log_usage as t where t.app_number = a.number) as log_bytes,
        (select count(*) from builds as t where t.app_number = a.number) as builds
      from apps as a
      where a.deleted_at is null
        or exists (select 1 from runs as t where t.app_number = a.number)
        or exists (select 1 from payloads as t where t.app_number = a.number)
        or exists (select 1 from transcripts as t where t.app_number = a.number)
        or exists (select 1 from log_usage as t where t.app_number = a.number and t.bytes > 0)
        or exists (select 1 from builds as t where t.app_number = a.number)
      order by a.project_id, a.name, a.number
    `.execute(db);
    // Postgres gives sums and counts as text.
    return rows.map((row) => ({
      number: Number(row.number),
      projectId: String(row.projectId),
      name: String(row.name),
      isDeleted: Number(row.isDeleted) === 1,
      logBytes: Number(row.logBytes),
      builds: Number(row.builds),
    }));
  }),

  /** Counts the next of an app's rows, and the bytes that they hold. */
  count: heavyRead(async ({ sql, db }, { table, appNumber, after }: CountStep): Promise<CountedRows> => {
    const rows = sql.table(table);
    const isNext = sql`app_number = ${appNumber} and id > ${after ?? Buffer.alloc(0)}`;
    const { rows: ends } = await sql<{ id: Uint8Array }>`
      select id from ${rows} where ${isNext} order by id limit 1 offset ${STEP_RUNS - 1}
    `.execute(db);
    const last = ends[0]?.id ?? null;
    const isBefore = last === null ? sql`` : sql`and id <= ${last}`;
    const { rows: sums } = await sql<{ count: string | number; bytes: string | number }>`
      select count(*) as count, coalesce(sum(${sql.raw(BYTES[table])}), 0) as bytes
      from ${rows} where ${isNext} ${isBefore}
    `.execute(db);
    return { rows: Number(sums[0]?.count), bytes: Number(sums[0]?.bytes), last };
  }),
};
