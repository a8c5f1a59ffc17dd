import { statfsSync } from "node:fs";
import path from "node:path";
import type { DatabaseSync } from "node:sqlite";

const INCREMENTAL = 2;
/** The copy, the log through which it goes back, and as much again for what else needs room meanwhile. */
const COPIES = 3;

/** The steps of rewriting a database from an earlier release. */
export type RewriteStep =
  | { readonly step: "begun"; readonly bytes: number }
  | { readonly step: "ended" }
  | { readonly step: "failed"; readonly reason: string };

/**
 * Lets the database give room back to the disk, a little at a time. A new one is made so; one of an earlier release
 * is written anew, once, where its disk has room for that. Before anything else is done with it. One that cannot be
 * written anew works as it is, and the next start tries again.
 */
export function enableVacuum(database: DatabaseSync, file: string, tell: (step: RewriteStep) => void): void {
  // Another starter may be making it at this moment.
  database.exec("pragma busy_timeout = 5000");
  const neededBytes = bytesToRewrite(database);
  if (neededBytes === null) return;
  const folder = path.dirname(file);
  const { bavail, bsize } = statfsSync(folder);
  if (neededBytes > bavail * bsize) {
    const [needed, free] = [neededBytes, bavail * bsize].map((bytes) => Math.ceil(bytes / 1e6));
    tell({ step: "failed", reason: `it needs ${needed} MB in ${folder}, which has only ${free} MB free` });
    return;
  }
  database.exec(`pragma auto_vacuum = ${INCREMENTAL}`);
  if (neededBytes === 0) return;
  tell({ step: "begun", bytes: neededBytes / COPIES });
  try {
    // The copy goes where the room was looked for, not to whatever disk has the temporary directory.
    database.exec(`pragma temp_store_directory = '${folder.replaceAll("'", "''")}'`);
    database.exec("vacuum");
    tell({ step: "ended" });
  } catch (error) {
    tell({ step: "failed", reason: error instanceof Error ? error.message : String(error) });
  } finally {
    // It holds for the whole process.
    database.exec("pragma temp_store_directory = ''");
  }
}

/** The space needed to rewrite the database so that it can return free space; null if it already can. */
export function bytesToRewrite(database: DatabaseSync): number | null {
  if (value(database, "auto_vacuum") === INCREMENTAL) return null;
  return COPIES * value(database, "page_count") * value(database, "page_size");
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
