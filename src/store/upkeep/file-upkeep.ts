import { heavyRead, read, upkeep, write } from "../operation.ts";

/** Room that the database's files hold and do not need. */
export const space = {
  /** Bytes inside them that the next writes will fill. */
  freeBytes: read(({ freeBytes }): Promise<number> => Promise.resolve(freeBytes())),

  /** Gives up to so many of them back to the disk; returns how many are left. */
  giveBack: write(({ giveBack, freeBytes }, maxBytes: number): Promise<number> => {
    giveBack(maxBytes);
    return Promise.resolve(freeBytes());
  }),

  /** Bytes of the log that writes go through first. */
  logBytes: read(({ log }): Promise<number> => Promise.resolve(log?.bytes() ?? 0)),

  /** Folds that log into the database; returns how many bytes are left, which somebody who reads may still need. */
  foldLog: upkeep(({ log }): Promise<number> => {
    log?.fold();
    return Promise.resolve(log?.bytes() ?? 0);
  }),
};

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
