// What statements of several tables have in common.

/** Far fewer than the 32,766 parameters that SQLite takes in a statement. */
const CHUNK = 1_000;

/** Ids in lists that are short enough for one statement. */
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
