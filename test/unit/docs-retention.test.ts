import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { LIMITS_KEYS } from "../../src/config/keys/limits.ts";
import { LIMIT_KEYS } from "../../src/config/service-keys.ts";
import { envOf } from "../../src/config/setting-keys.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { verifies } from "../verifies.ts";

const DOCUMENT = readFileSync(path.join(REPOSITORY, "docs", "operations.md"), "utf8");
const [, TABLE = ""] = DOCUMENT.split("| what grows |");
const ROWS = TABLE.split("\n\n", 1)[0]!.split("\n").slice(2);

const MAX_RUNS = setting("maxRuns");
const MAX_STORAGE = setting("maxStorageBytes");
const RECORDS = setting("recordRetentionMs");
const RESULTS = limit("resultRetentionSeconds");

/** Everything that grows, with the settings that bound it. */
const BOUNDS = {
  "run records": [MAX_RUNS, RECORDS],
  "payloads: inputs and results": [MAX_STORAGE, RESULTS],
  transcripts: [MAX_STORAGE, limit("maxTranscriptBytes"), RESULTS],
  "[usage](usage.md) by day": [],
  "lines that apps print": [setting("maxLogBytes"), limit("maxLogBytes"), RECORDS],
  "builds and their logs": [],
  "versions and their bundles": [],
  environments: [],
  "deliveries of webhooks": [MAX_RUNS, RECORDS],
  "audit log": [setting("auditRetentionMs")],
};

function setting(member: keyof typeof LIMIT_KEYS): string {
  const { name, default: usual } = LIMIT_KEYS[member];
  return `\`${envOf(name)}\` (${usual})`;
}

function limit(member: keyof typeof LIMITS_KEYS): string {
  const { path, default: usual } = LIMITS_KEYS[member];
  return `\`${path}\` (${String(usual)})`;
}

verifies("retention.table", "docs/operations.md lists all that grows, with its settings and defaults", () => {
  const bounds = ROWS.map((row) => [row.split(" | ")[0]!.slice(2), row.match(/`[\w.]+` \([^)]*\)/g) ?? []]);
  expect(bounds).toEqual(Object.entries(BOUNDS));
});

verifies("retention.table", "each check that the table names is one that doctor makes", () => {
  const [, checks = ""] = DOCUMENT.split("## When something is wrong");
  for (const row of ROWS) expect(checks).toContain(`\n| ${row.split(" | ")[3]!.replace(/ \|$/, "")} | `);
});
