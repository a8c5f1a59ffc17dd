import { heavyRead, read, upkeep, write } from "../operation.ts";

/** Unused space in the database's files, and the write-ahead log. */
export const space = {
  /** Unused bytes, which later writes fill. */
  freeBytes: read(({ files }): Promise<number> => Promise.resolve(files?.freeBytes() ?? 0)),

  /** Returns up to that many of them to the file system; returns how many are left. */
  giveBack: write(({ files }, maxBytes: number): Promise<number> => {
    files?.giveBack(maxBytes);
    return Promise.resolve(files?.freeBytes() ?? 0);
  }),

  /** The size of the write-ahead log. */
  logBytes: read(({ files }): Promise<number> => Promise.resolve(files?.logBytes() ?? 0)),

  /** Checkpoints the log into the database; returns how many bytes are left, which readers may still need. */
  foldLog: upkeep(({ files }): Promise<number> => {
    files?.foldLog();
    return Promise.resolve(files?.logBytes() ?? 0);
  }),
};

/** Checks the database's file for damage; a Postgres server checks its files itself. */
export const integrity = {
  /** The tables that `findDamage` can check one by one. */
  tables: heavyRead(async ({ db, sql, files }): Promise<string[]> => {
    if (!files) return [];
    const tables = sql<{ name: string }>`select name from sqlite_schema where type = 'table'`;
    const { rows } = await tables.execute(db);
    return rows.map(({ name }) => name);
  }),

  /** The first fault of a table and its indexes, or of the whole file; null if there is none. */
  findDamage: heavyRead(({ files }, table: string | null): Promise<string | null> =>
    Promise.resolve(files?.findDamage(table) ?? null),
  ),
};
