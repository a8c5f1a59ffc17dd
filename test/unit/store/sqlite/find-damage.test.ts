import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, expect } from "vitest";
import { translateError } from "../../../../src/store/sqlite/messages.ts";
import { findDamage } from "../../../../src/store/sqlite/connection.ts";
import { openSession } from "../../../../src/store/sqlite/session.ts";
import { DamagedStorage } from "../../../../src/store/upkeep/storage-fault.ts";
import { flipPage, pageCount } from "../../../support/flip-page.ts";
import { verifies } from "../../../verifies.ts";

const folder = mkdtempSync(path.join(tmpdir(), "millrace-damage-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** What is wrong with a file, found as a start finds it. */
function problemOf(file: string, tables: readonly (string | null)[]): string | null {
  try {
    const database = new DatabaseSync(file, { readOnly: true });
    try {
      return tables.map((table) => findDamage(database, table)).find((found) => found !== null) ?? null;
    } finally {
      database.close();
    }
  } catch (error) {
    const translated = translateError(error);
    if (translated instanceof DamagedStorage) return translated.problem;
    throw error;
  }
}

verifies(
  "storage.damaged.every-page",
  "each page that was flipped is found, by one check of the file and by a check of each table",
  async () => {
    const sound = path.join(folder, "sound.db");
    const { database, db } = await openSession("write", sound);
    const insert = database.prepare("insert into meta (key, value) values (?, ?)");
    // Values of several pages each, so that there are pages that hold nothing but their middle.
    for (let n = 0; n < 12; n++) insert.run(`key-${n}`, "x".repeat(n * 1_500));
    // No page is free: what is flipped in one is no damage.
    database.exec("vacuum");
    const tables = database
      .prepare("select name from sqlite_schema where type = 'table'")
      .all()
      .map((row) => String(row["name"]));
    await db.destroy();
    expect(problemOf(sound, [null])).toBeNull();
    expect(problemOf(sound, tables)).toBeNull();
    const missed: string[] = [];
    for (let page = 1; page <= pageCount(sound); page++) {
      const file = path.join(folder, "flipped.db");
      copyFileSync(sound, file);
      flipPage(file, page);
      if (problemOf(file, [null]) === null) missed.push(`${page} by the whole`);
      // Some, because there are so many tables; not the map of pages that lets the file shrink, which is in none.
      if (page % 7 === 0 && problemOf(file, tables) === null) missed.push(`${page} by its table`);
    }
    expect(missed).toEqual([]);
  },
);
