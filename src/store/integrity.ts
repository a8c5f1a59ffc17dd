import { heavyRead } from "./operation.ts";

/** Whether the database's own file is sound; a Postgres server looks after its files itself. */
export const integrity = {
  /** What `findDamage` can check one after the other. */
  tables: heavyRead(async ({ db, sql, findDamage }): Promise<string[]> => {
    if (!findDamage) return [];
    const { rows } = await sql<{ name: string }>`select name from sqlite_schema where type = 'table'`.execute(
      db,
    );
    return rows.map(({ name }) => name);
  }),

  /** The first fault of a table and its indexes, or of the whole file; null if there is none. */
  findDamage: heavyRead(({ findDamage }, table: string | null): Promise<string | null> =>
    Promise.resolve(findDamage?.(table) ?? null),
  ),
};
