import { describe, expect, test } from "vitest";
import { REQUIREMENTS, TABLES } from "../requirements.ts";
import type { RequirementId } from "../requirements.ts";
import { TRIED_BY_NAME } from "../requirements/by-name.ts";
import { later, section } from "../requirements/row.ts";
import { findGaps, findLeftOut, readClaims, switchedOff } from "../support/requirement-gaps.ts";
import { readSources } from "../support/source-files.ts";

const tests = readSources(["test"], [".test.ts"]);
const claims = readClaims(tests);
const gaps = findGaps(REQUIREMENTS, claims.ids);

function expectNone(lines: readonly string[], heading: string): void {
  if (lines.length > 0) throw new Error(`${lines.length} ${heading}:\n${lines.join("\n")}`);
}

describe("promises and tests", () => {
  test("the scan sees tests and the ids they name", () => {
    expect(tests.size).toBeGreaterThan(5);
    expect(claims.ids).toContain("show.no-circle");
    expect(Object.keys(REQUIREMENTS).length).toBeGreaterThan(400);
  });

  test("every promise that is not for later has a test", () => {
    expectNone(gaps.untested, "promises without a test");
  });

  test("npm test tries every promise, but for those that requirements/by-name.ts names", () => {
    expectNone(findLeftOut(REQUIREMENTS, tests, TRIED_BY_NAME), "promises that run at other times than said");
  });

  test("no promise marked for later has a test already", () => {
    expectNone(gaps.alreadyTested, "rows whose `later` must go");
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

  test("every row names its source and says one thing in a sentence", () => {
    const odd = Object.entries(REQUIREMENTS).filter(
      ([id, row]) =>
        !/^[a-z0-9]+(?:[.-][a-z0-9]+)*$/.test(id) ||
        !/^(?:seed|contract \d|issue|design): \S/.test(row.source) ||
        !/^\S.{8,118}\.$/.test(row.behaviour),
    );
    expect(odd).toEqual([]);
  });
});

describe("the gate finds planted faults", () => {
  // Spelt apart, so that the scan of this very file does not take a planted call for a real one.
  const call = "verifies";
  const rows = {
    ...section("contract 1: Sync", { "a.kept": "Kept.", "a.forgotten": "Forgotten." }),
    ...section("seed: Streaming mode 1", {
      "b.waiting": later("streaming", "Waiting."),
      "b.early": later("streaming", "Early."),
    }),
  };

  test("a promise without a test, one tested too early and an unknown id are each found", () => {
    expect(findGaps(rows, new Set(["a.kept", "b.early", "c.invented"]))).toEqual({
      untested: ["a.forgotten (contract 1: Sync): Forgotten."],
      alreadyTested: ["b.early (seed: Streaming mode 1): Early."],
      unknown: ["c.invented"],
    });
  });

  test("with every promise kept nothing is found", () => {
    expect(findGaps(rows, new Set(["a.kept", "a.forgotten"]))).toEqual({
      untested: [],
      alreadyTested: [],
      unknown: [],
    });
  });

  test("a promise that npm test leaves out unsaid, or is said to leave out, is found", () => {
    const files = new Map([
      ["test/thorough/a.test.ts", `${call}(["a.kept", "a.forgotten"], "title", fn);`],
      ["test/integration/a.test.ts", `${call}("a.kept", "title", fn);`],
    ]);
    expect(findLeftOut(rows, files, {})).toEqual(["a.forgotten: npm test does not try it (Forgotten.)"]);
    expect(findLeftOut(rows, files, { thorough: ["a.forgotten"] })).toEqual([]);
    expect(findLeftOut(rows, files, { walls: ["a.forgotten"], thorough: ["a.kept"] })).toEqual([
      "a.forgotten: no test below test/walls/",
      "a.kept: npm test tries it",
    ]);
  });

  test("an id named like a property of every object is unknown", () => {
    expect(findGaps(rows, new Set(["constructor", "a.kept", "a.forgotten"])).unknown).toEqual([
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
