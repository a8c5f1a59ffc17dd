import { closeSync, openSync, readSync, statSync, writeSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";

/** SQLite's default, which the service keeps. */
const PAGE_BYTES = 4096;

/** Inverts every byte of a page of a database file, as a broken disk might; the first page is 1. */
export function flipPage(file: string, page: number): void {
  const bytes = Buffer.alloc(PAGE_BYTES);
  const at = (page - 1) * PAGE_BYTES;
  const handle = openSync(file, "r+");
  try {
    readSync(handle, bytes, 0, PAGE_BYTES, at);
    for (const [index, byte] of bytes.entries()) bytes[index] = byte ^ 0xff;
    writeSync(handle, bytes, 0, PAGE_BYTES, at);
  } finally {
    closeSync(handle);
  }
}

/** The pages that hold rows of a table, in the order of their keys. */
export function leafPages(file: string, table: string): number[] {
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    const query = "select pageno from dbstat where name = ? and pagetype = 'leaf' order by path";
    return database
      .prepare(query)
      .all(table)
      .map((row) => Number(row["pageno"]));
  } finally {
    database.close();
  }
}

/** How many pages a file has. */
export function pageCount(file: string): number {
  return statSync(file).size / PAGE_BYTES;
}
