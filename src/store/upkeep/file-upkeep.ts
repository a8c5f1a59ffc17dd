import { heavyRead, read, upkeep, write } from "../operation.ts";

/** Unused space in the database's files, and the write-ahead log. */
export const space = {
  /** Unused bytes, which later writes fill. */
  freeBytes: read(({ freeBytes }): Promise<number> => Promise.resolve(freeBytes())),

  /** Returns up to that many of them to the file system; returns how many are left. */
  giveBack: write(({ giveBack, freeBytes }, maxBytes: number): Promise<number> => {
    giveBack(maxBytes);
    return Promise.resolve(freeBytes());
  }),

  /** The size of the write-ahead log. */
  logBytes: read(({ log }): Promise<number> => Promise.resolve(log?.bytes() ?? 0)),

  /** Checkpoints the log into the database; returns how many bytes are left, which readers may still need. */
  foldLog: upkeep(({ log }): Promise<number> => {
    log?.fold();
    return Promise.resolve(log?.bytes() ?? 0);
  }),
};

/** Checks the database's file for damage; a Postgres server checks its files itself. */
export const integrity = {
  /** The tables that `findDamage` can check one by one. */
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
