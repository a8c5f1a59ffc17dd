import type { DatabaseReport } from "../upkeep/report.ts";
import { KNOWN_MIGRATIONS } from "./migrate.ts";
import { SCHEMA_OBJECTS } from "./schema-objects.ts";

/** How the database's schema stands to this release's. */
export function schemaState({
  migrations,
}: Pick<DatabaseReport, "migrations">): "current" | "older" | "newer" {
  if (migrations.some((name) => !KNOWN_MIGRATIONS.includes(name))) return "newer";
  return migrations.length < KNOWN_MIGRATIONS.length ? "older" : "current";
}

/** The columns and indexes that a database of this release should have and does not; of another release, none. */
export function missingObjects(report: DatabaseReport): string[] {
  if (schemaState(report) !== "current") return [];
  const there = new Set(report.objects);
  return SCHEMA_OBJECTS.filter((name) => !there.has(name));
}
