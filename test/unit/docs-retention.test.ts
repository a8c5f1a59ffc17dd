import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { RETENTION, retentionLine } from "../../src/config/retention.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { verifies } from "../verifies.ts";

const DOCUMENT = readFileSync(path.join(REPOSITORY, "docs", "operations.md"), "utf8");
const [, TABLE = ""] = DOCUMENT.split("| what grows |");

verifies("retention.table", "docs/operations.md lists all that grows, with its settings and defaults", () => {
  const lines = TABLE.split("\n\n", 1)[0]!.split("\n").slice(2);
  expect(lines).toEqual(RETENTION.map(retentionLine));
});

verifies("retention.table", "each check that the table names is one that doctor makes", () => {
  const [, checks = ""] = DOCUMENT.split("## When something is wrong");
  for (const { check } of RETENTION) expect(checks).toContain(`\n| \`${check}\` | `);
});
