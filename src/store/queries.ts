import type { ExpressionBuilder, FilterObject, RawBuilder } from "kysely";
import type { Schema, Session } from "./operation.ts";
import { uuidBytes } from "../kit/ids.ts";
import type { RunKey } from "../model/run.ts";

// What statements of several tables have in common.

/** The key of a run of any app, with the bytes of its id. */
export type StoredKey = { readonly appNumber: number; readonly id: Uint8Array };

/** A run's key as it is stored. */
export function storedKey({ appNumber, id }: RunKey): StoredKey {
  return { appNumber, id: uuidBytes(id) };
}

/** For `where`: every column has that value, or is null. */
export function all<Table extends keyof Schema>(values: Readonly<FilterObject<Schema, Table>>) {
  return (eb: ExpressionBuilder<Schema, Table>) => eb.and(values);
}

/** No id is above it. */
export const LAST_ID = Buffer.alloc(16, 0xff);

/** With one parameter each, or a few, far fewer than the 32,766 that SQLite takes in a statement. */
const CHUNK = 1_000;

/** Ids, or rows of a few columns, in lists that are short enough for one statement. */
export function chunks<Item>(items: readonly Item[]): Item[][] {
  return Array.from({ length: Math.ceil(items.length / CHUNK) }, (_, i) =>
    items.slice(i * CHUNK, (i + 1) * CHUNK),
  );
}

/** For `onConflict`: a row whose key is already there is left as it is. */
export function doNothing<Result>(conflict: { doNothing(): Result }): Result {
  return conflict.doNothing();
}

/** The first row of a select; null if there is none. */
export async function firstOf<Row>(query: {
  executeTakeFirst(): Promise<Row | undefined>;
}): Promise<Row | null> {
  return (await query.executeTakeFirst()) ?? null;
}

/** An insert, update or delete of at most one row. */
export type Change = {
  executeTakeFirst(): Promise<{
    readonly numInsertedOrUpdatedRows?: bigint | undefined;
    readonly numUpdatedRows?: bigint;
    readonly numDeletedRows?: bigint;
  }>;
};

/** Executes a change, and returns whether it changed a row. */
export async function isDone(change: Change): Promise<boolean> {
  const { numInsertedOrUpdatedRows, numUpdatedRows, numDeletedRows } = await change.executeTakeFirst();
  return (numInsertedOrUpdatedRows ?? numUpdatedRows ?? numDeletedRows) === 1n;
}

/**
 * The beginning of a statement that defines `found (app_number)`: the apps that have rows, or such rows, in a table.
 * Goes from key to key: reading all of 100,000 queued runs took 80 to 140 ms, this less than 1.
 */
export function appsFound(
  { sql }: Pick<Session, "sql">,
  table: "runs" | "payloads" | "transcripts" | "checkpoints",
  condition: RawBuilder<boolean> | null = null,
): RawBuilder<unknown> {
  const rows = sql.table(table);
  const isWanted = condition ? sql`${condition} and` : sql``;
  return sql`with recursive found (app_number) as (
    select min(app_number) from ${rows} ${condition ? sql`where ${condition}` : sql``}
    union all
    select (select min(app_number) from ${rows} where ${isWanted} app_number > found.app_number)
    from found where found.app_number is not null
  )`;
}

/** The numbers of a project's apps, deleted or not, as a subquery. */
export function appsOf({ db }: Pick<Session, "db">, projectId: string) {
  return db.selectFrom("apps").select("number").where("projectId", "=", projectId);
}
