import { expect, test } from "vitest";

import {
  ConfigError,
  editDistance,
  nearest,
  Problems,
  showKey,
  showSecret,
  showValue,
} from "../../../src/config/problems.ts";

test("a ConfigError lists every problem in its message", () => {
  const problems = new Problems();
  problems.misfit("scaling.cooldown", "a duration from 0s to 1h", "2 days");
  problems.add("something else");
  const error = thrownBy(() => problems.throwIfAny("The file"));
  expect(error.problems).toEqual([
    'scaling.cooldown must be a duration from 0s to 1h, got "2 days"',
    "something else",
  ]);
  expect(error.message).toBe(`The file has 2 problems:\n  - ${error.problems[0]}\n  - ${error.problems[1]}`);
});

test("nothing is thrown for warnings alone", () => {
  const problems = new Problems();
  problems.warn("odd");
  problems.throwIfAny("The file");
  expect(problems.warnings).toEqual(["odd"]);
});

test("past a hundred, problems and warnings are counted instead of listed; a few have a suggestion", () => {
  const problems = new Problems();
  let suggestions = 0;
  for (let i = 0; i < 250; i++) {
    problems.add(`problem ${i}`);
    problems.unknown(`key${i}`, () => (suggestions++, null));
  }
  expect(problems.warnings).toHaveLength(101);
  expect(problems.warnings[100]).toBe("and 150 more warnings");
  expect(suggestions).toBe(20);
  expect(thrownBy(() => problems.throwIfAny("It")).problems[100]).toBe("and 150 more");
});

test.each([
  ["text", '"text"'],
  [5, "5"],
  [Number.NaN, "NaN"],
  [2n ** 63n, "9223372036854775808"],
  [true, "true"],
  [null, "null"],
  [{ a: { b: 1 } }, "a table"],
  [[1, "a", [2], {}], '[1, "a", a list, a table]'],
  [new Date(), "a date"],
  ["line\nbreak\u001b[2J", '"line\\nbreak\\u001b[2J"'],
])("shows a value on one line, whatever it is (%#)", (value, shown) => {
  expect(showValue(value)).toBe(shown);
});

test("shows at most 80 characters of a value or a key", () => {
  for (const shown of [
    showValue("x".repeat(1e6)),
    showValue(Array(1e5).fill("abcdef")),
    showKey("é".repeat(1e5)),
  ]) {
    expect(shown).toHaveLength(80);
    expect(shown.endsWith("…")).toBe(true);
  }
});

test.each([
  "postgres://user:hunter2@host/db",
  "postgrs://user:hunter2@host/db?sslmode=no",
  "postgres://user:p@hunter2/x@host/db",
  "http://hunter2@host",
  "user:hunter2@host/db",
  "postgres:user:hunter2@host",
  "postgres://host/db?password=hunter2",
])("masks the credentials in %s", (text) => {
  expect(showValue(text)).not.toContain("hunter2");
  expect(showValue(text)).toContain("***");
  expect(showValue([text])).not.toContain("hunter2");
  expect(showSecret(text)).not.toContain("hunter2");
});

test("of a secret only the scheme is shown", () => {
  expect(showSecret("mysql://user:hunter2")).toBe('"mysql://***"');
  expect(showSecret("hunter2")).toBe("a value that is not shown");
  expect(showSecret(["hunter2"])).toBe("a value that is not shown");
});

test("the distance between words counts single-character edits", () => {
  expect(editDistance("cooldown", "cooldown")).toBe(0);
  expect(editDistance("cooldwn", "cooldown")).toBe(1);
  expect(editDistance("kitten", "sitting")).toBe(3);
  expect(editDistance("", "abc")).toBe(3);
});

test("the nearest name is found past a slip, and none is made up for a far one", () => {
  const known = ["min_replicas", "max_replicas", "cooldown"];
  expect(nearest("min_replica", known)).toBe("min_replicas");
  expect(nearest("MAX_REPLICAS", known)).toBe("max_replicas");
  expect(nearest("entirely_different", known)).toBeNull();
  expect(nearest("x".repeat(1e6), known)).toBeNull();
});

function thrownBy(run: () => void): ConfigError {
  try {
    run();
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}
