import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { type RequirementId, REQUIREMENTS, TABLES } from "../requirements.ts";
import { section } from "../requirements/row.ts";
import { findGaps, neverRun, readClaims, switchedOff, unknownSources } from "../support/requirement-gaps.ts";
import { REPOSITORY, readSources } from "../support/source-files.ts";

const tests = readSources(["test"], [".test.ts"]);
const documents = new Map([
  ...readSources(["docs"], [".md"]),
  ...["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(
    (name) => [name, readFileSync(path.join(REPOSITORY, name), "utf8")] as const,
  ),
]);
const claims = readClaims(tests);
const gaps = findGaps(REQUIREMENTS, claims.ids);

function expectNone(lines: readonly string[], heading: string): void {
  if (lines.length > 0) throw new Error(`${lines.length} ${heading}:\n${lines.join("\n")}`);
}

describe("promises and tests", () => {
  test("the scan sees tests and the ids they name", () => {
    expect(tests.size).toBeGreaterThan(5);
    expect(claims.ids).toContain("design.layers");
    expect(Object.keys(REQUIREMENTS).length).toBeGreaterThan(400);
  });

  test("every promise has a test", () => {
    expectNone(gaps.untested, "promises without a test");
  });

  test("every test is in a folder that a command runs", () => {
    expectNone(neverRun(tests), "test files that no command runs");
  });

  test("every id that a test names is a promise", () => {
    expectNone(gaps.unknown, "ids without a row");
  });

  test("every verifies call names its ids as literals", () => {
    expectNone(claims.unreadable, "files with a verifies call that cannot be read");
  });

  test("no test is switched off", () => {
    expectNone(switchedOff(tests), "files with a test that is skipped, focused or empty");
  });

  test("each id stands in one table only", () => {
    const ids = TABLES.flatMap((table) => Object.keys(table));
    expect(ids.filter((id, place) => ids.indexOf(id) !== place)).toEqual([]);
  });

  test("every row says one thing in a sentence", () => {
    const odd = Object.entries(REQUIREMENTS).filter(
      ([id, row]) => !/^[a-z0-9]+(?:[.-][a-z0-9]+)*$/.test(id) || !/^\S.{8,118}\.$/.test(row.behaviour),
    );
    expect(odd).toEqual([]);
  });

  test("every row cites the seed, the contract, or a heading of a document in this repository", () => {
    expectNone(unknownSources(REQUIREMENTS, documents), "sources that cannot be found");
  });
});

describe("the gate finds planted faults", () => {
  // Spelt apart, so that the scan of this very file does not take a planted call for a real one.
  const call = "verifies";
  const rows = {
    ...section("contract 1: Sync", { "a.kept": "Kept.", "a.forgotten": "Forgotten." }),
    ...section("docs/api.md: Streams", { "b.cited": "Cited." }),
  };

  test("a promise without a test and an unknown id are both found", () => {
    expect(findGaps(rows, new Set(["a.kept", "b.cited", "c.invented"]))).toEqual({
      untested: ["a.forgotten (contract 1: Sync): Forgotten."],
      unknown: ["c.invented"],
    });
  });

  test("with every promise kept nothing is found", () => {
    expect(findGaps(rows, new Set(["a.kept", "a.forgotten", "b.cited"]))).toEqual({
      untested: [],
      unknown: [],
    });
  });

  test("a test that no command runs is found", () => {
    const files = new Map([
      ["test/thorough/a.test.ts", ""],
      ["test/integration/a.test.ts", ""],
      ["test/elsewhere/a.test.ts", ""],
    ]);
    expect(neverRun(files)).toEqual(["test/elsewhere/a.test.ts"]);
  });

  test("a document or a heading that is gone is found", () => {
    expect(unknownSources(rows, new Map([["docs/api.md", "# API\n\n## Streams\n"]]))).toEqual([]);
    expect(unknownSources(rows, new Map([["docs/api.md", "# API\n\n## Stream\n"]]))).toEqual([
      "docs/api.md: Streams",
    ]);
    expect(unknownSources(rows, new Map())).toEqual(["docs/api.md: Streams"]);
    expect(unknownSources(section("issue: Some work", { "a.b": "Said." }), new Map())).toEqual([
      "issue: Some work",
    ]);
  });

  test("an id named like a property of every object is unknown", () => {
    expect(findGaps(rows, new Set(["constructor", "a.kept", "a.forgotten", "b.cited"])).unknown).toEqual([
      "constructor",
    ]);
  });

  test("ids are read from one-line and broken calls, not from comments", () => {
    const text = [
      `${call}("a.one", "title", fn);`,
      "for (const kind of kinds)",
      `  ${call}(["a.two", "a.three"], "title", fn);`,
      `${call}(`,
      '  "a.four",',
      ");",
      `${call}([\n  "a.five",\n], "title", fn);`,
      `// ${call}("a.comment", "title", fn);`,
    ].join("\n");
    const { ids, unreadable } = readClaims(new Map([["x.test.ts", text]]));
    expect([...ids]).toEqual(["a.one", "a.two", "a.three", "a.four", "a.five"]);
    expect(unreadable).toEqual([]);
  });

  test("a call whose ids are computed is reported", () => {
    const files = new Map([
      ["variable.test.ts", `${call}(id, "title", fn);`],
      ["template.test.ts", `${call}(\`a.\${name}\`, "title", fn);`],
      ["spread.test.ts", `${call}(["a.one", ...others], "title", fn);`],
      ["none.test.ts", `${call}([], "title", fn);`],
    ]);
    expect(readClaims(files).unreadable).toEqual([...files.keys()]);
  });

  test("a skipped, a focused and an empty test are each found", () => {
    const files = new Map([
      ["skipped.test.ts", 'describe.skip("x", () => {});'],
      ["focused.test.ts", 'test.only("x", () => {});'],
      ["empty.test.ts", 'test.todo("x");'],
      ["conditional.test.ts", 'test.skipIf(noNumpy)("x", () => {});'],
      ["plain.test.ts", 'test("x", () => {});'],
    ]);
    expect(switchedOff(files)).toEqual(["skipped.test.ts", "focused.test.ts", "empty.test.ts"]);
  });

  test("TypeScript refuses an id without a row", () => {
    const known: RequirementId = "run.sync.body";
    // @ts-expect-error: no table has this row
    const unknown: RequirementId = "run.sync.no-such-row";
    expect([known in REQUIREMENTS, unknown in REQUIREMENTS]).toEqual([true, false]);
  });
});
