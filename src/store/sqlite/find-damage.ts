import type { DatabaseSync } from "node:sqlite";

/** The first fault that `quick_check` finds in a table and its indexes, or with null in the whole file. */
export function findDamage(database: DatabaseSync, table: string | null): string | null {
  const scope = table === null ? "1" : `'${table.replaceAll("'", "''")}'`;
  const [found] = database.prepare(`pragma quick_check(${scope})`).all();
  const text = String(found?.["quick_check"]);
  return text === "ok" ? null : text.replaceAll(/\s+/g, " ");
}
