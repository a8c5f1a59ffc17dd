import { KNOWN_MIGRATIONS } from "./migrate.ts";
import type { DatabaseReport } from "./database-report.ts";

/** How the database's schema stands to this release's. */
export function schemaState({ migrations }: DatabaseReport): "current" | "older" | "newer" {
  if (migrations.some((name) => !KNOWN_MIGRATIONS.includes(name))) return "newer";
  return migrations.length < KNOWN_MIGRATIONS.length ? "older" : "current";
}
