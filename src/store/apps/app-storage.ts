import { heavyRead } from "../operation.ts";
import { type KeyedTable, ROW_SIZES } from "../runs/removal.ts";

/** An app, with the amounts that are counted continuously. */
export type StoredApp = {
  readonly number: number;
  readonly projectId: string;
  readonly name: string;
  readonly isDeleted: boolean;
  readonly logBytes: number;
  readonly builds: number;
};

/** The rows of one app after a run, or from the first one. */
export type CountStep = Readonly<{ table: KeyedTable; appNumber: number; after: Uint8Array | null }>;

/** The result of a step. The next one continues after `last`, which is null after the last step. */
export type CountedRows = { readonly rows: number; readonly bytes: number; readonly last: Uint8Array | null };

/** The runs that one step reads: a few milliseconds, or some hundred if they come from the disk. */
export const STEP_RUNS = 2_000;

/** How much each app stores. No operation reads much at once. */
export const appStorage = {
  /** Every app, including deleted ones of which something is still stored. */
  list: heavyRead(async ({ sql, db }): Promise<StoredApp[]> => {
    const exist = ["runs", "payloads", "transcripts", "checkpoints", "builds"].map(
      (table) => sql`exists (select 1 from ${sql.table(table)} as t where t.app_number = a.number)`,
    );
    // Postgres returns a sum of bigints as text.
    const { rows } = await sql<Omit<StoredApp, "isDeleted"> & { readonly isDeleted: unknown }>`
      select a.number, a.project_id, a.name, a.deleted_at is not null as is_deleted,
        (select cast(coalesce(sum(t.bytes), 0) as bigint) from log_usage as t where t.app_number = a.number) as log_bytes,
        (select count(*) from builds as t where t.app_number = a.number) as builds
      from apps as a
      where a.deleted_at is null
        or ${sql.join(exist, sql` or `)}
        or exists (select 1 from log_usage as t where t.app_number = a.number and t.bytes > 0)
      order by a.project_id, a.name, a.number
    `.execute(db);
    // SQLite has no booleans.
    return rows.map((row) => ({ ...row, isDeleted: Boolean(row.isDeleted) }));
  }),

  /** Counts an app's next rows, and their bytes. */
  count: heavyRead(async ({ sql, db }, { table, appNumber, after }: CountStep): Promise<CountedRows> => {
    const rows = sql.table(table);
    const isNext = sql`app_number = ${appNumber} and id > ${after ?? Buffer.alloc(0)}`;
    const { rows: ends } = await sql<{ id: Uint8Array }>`
      select id from ${rows} where ${isNext} order by id limit 1 offset ${STEP_RUNS - 1}
    `.execute(db);
    const last = ends[0]?.id ?? null;
    const isBefore = last === null ? sql`` : sql`and id <= ${last}`;
    const { rows: sums } = await sql<Pick<CountedRows, "rows" | "bytes">>`
      select count(*) as rows, cast(coalesce(sum(${sql.raw(ROW_SIZES[table])}), 0) as bigint) as bytes
      from ${rows} where ${isNext} ${isBefore}
    `.execute(db);
    return { ...sums[0]!, last };
  }),
};
