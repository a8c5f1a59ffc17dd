import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { REPOSITORY } from "../support/source-files.ts";

const read = (file: string): string => readFileSync(path.join(REPOSITORY, file), "utf8");

test("every promise of docs/guarantees.md names tests that are there and test something", () => {
  // Further sections hold figures, with the test that prints them.
  const [promises = "", ...figures] = read("docs/guarantees.md").split("\n## ");
  for (const section of figures) expect(section).toMatch(/test\/[\w/-]+\.test\.ts/);
  const rows = promises.match(/^\| (?!promise|---).+\|$/gm) ?? [];
  expect(rows.length).toBeGreaterThan(8);
  for (const row of rows.filter((text) => !text.endsWith("| the same |"))) {
    const files = row.match(/test\/[\w/-]+\.test\.ts/g) ?? [];
    expect([row, files.length]).not.toEqual([row, 0]);
    for (const file of files) expect(read(file)).toMatch(/\b(?:test|verifies)\(/);
  }
});
