import { DatabaseSync } from "node:sqlite";
import { expect } from "vitest";

/** Nothing in the file is damaged, and what is counted as stored is what there is. Nobody has it open. */
export function expectIntact(file: string): void {
  const database = new DatabaseSync(file, { readOnly: true });
  const first = (query: string) => Object.values(database.prepare(query).get() ?? {})[0];
  const payloads =
    "select coalesce(sum(coalesce(length(input), 0) + coalesce(length(result), 0)), 0) from payloads";
  const transcripts = "select coalesce(sum(length(bytes)), 0) from transcripts";
  const stored = {
    integrity: "ok",
    runs: first("select count(*) from runs"),
    bytes: first(`select (${payloads}) + (${transcripts})`),
  };
  const counted = {
    integrity: first("pragma integrity_check"),
    runs: first("select sum(runs) from usage"),
    bytes: first("select sum(bytes) from usage"),
  };
  database.close();
  expect(counted).toEqual(stored);
}
