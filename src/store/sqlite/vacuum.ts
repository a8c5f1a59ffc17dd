import { statfsSync } from "node:fs";
import path from "node:path";
import type { DatabaseSync } from "node:sqlite";

const INCREMENTAL = 2;

/**
 * Lets the database give room back to the disk, a little at a time. A new one is made so; one of an earlier release
 * is written anew, once, where the disk has room for the copy. Before anything else is done with it.
 */
export function enableVacuum(database: DatabaseSync, file: string): void {
  // Another starter may be making it at this moment.
  database.exec("pragma busy_timeout = 5000");
  if (value(database, "auto_vacuum") === INCREMENTAL) return;
  const pages = value(database, "page_count");
  if (pages > 0 && !hasRoomFor(3 * pages * value(database, "page_size"), file)) return;
  database.exec(`pragma auto_vacuum = ${INCREMENTAL}`);
  if (pages === 0) return;
  try {
    database.exec("vacuum");
  } catch {
    // Somebody has it open: the next start tries again.
  }
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

/** The copy itself, and the log through which it goes. */
function hasRoomFor(bytes: number, file: string): boolean {
  const { bavail, bsize } = statfsSync(path.dirname(file));
  return bavail * bsize > bytes;
}

function value(database: DatabaseSync, pragma: string): number {
  return Number(Object.values(database.prepare(`pragma ${pragma}`).get() ?? {})[0]);
}
