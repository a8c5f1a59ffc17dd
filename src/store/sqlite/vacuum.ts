import type { DatabaseSync } from "node:sqlite";

const INCREMENTAL = 2;

/** Lets a new database give room back to the disk, a little at a time; one that has tables is made so already. */
export function enableVacuum(database: DatabaseSync): void {
  // Another starter may be making it at this moment.
  database.exec("pragma busy_timeout = 5000");
  if (value(database, "auto_vacuum") !== INCREMENTAL) database.exec(`pragma auto_vacuum = ${INCREMENTAL}`);
}

/** Bytes in pages that hold nothing. */
export function freeBytes(database: DatabaseSync): number {
  return value(database, "freelist_count") * value(database, "page_size");
}

/** Cuts so many of those off the file's end, at the next checkpoint. */
export function giveBack(database: DatabaseSync, maxBytes: number): void {
  const pages = Math.floor(maxBytes / value(database, "page_size"));
  if (pages > 0) database.exec(`pragma incremental_vacuum(${pages})`);
}

function value(database: DatabaseSync, pragma: string): number {
  return Number(Object.values(database.prepare(`pragma ${pragma}`).get() ?? {})[0]);
}
