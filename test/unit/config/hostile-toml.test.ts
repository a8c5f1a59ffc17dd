import * as fc from "fast-check";
import { stringify } from "smol-toml";
import { expect, test } from "vitest";

import { readAppConfig } from "../../../src/config/app-config.ts";
import { APP_KEYS } from "../../../src/config/app-shape.ts";
import { ConfigError } from "../../../src/config/problems.ts";

const HOST = { cpuCount: 4 };

test.each([
  ["inline lists nested 30,000 deep", `a = ${"[".repeat(30_000)}`],
  ["closed lists nested 30,000 deep", `a = ${"[".repeat(30_000)}${"]".repeat(30_000)}`],
  ["inline tables nested 10,000 deep", `a = ${"{a=".repeat(10_000)}1${"}".repeat(10_000)}`],
  ["one key of 30,000 dotted parts", `${"a.".repeat(30_000)}b = 1`],
  ["one header of 30,000 dotted parts", `[${"a.".repeat(30_000)}b]`],
  ["a known table nested too deep", `[scaling.cooldown${".a".repeat(20)}]`],
  ["100,000 dotted keys", Array.from({ length: 100_000 }, (_, i) => `a.k${i} = 1`).join("\n")],
  ["more keys than anybody needs", Array.from({ length: 4_100 }, (_, i) => `k${i}=1`).join("\n")],
  ["more tables than anybody needs", Array.from({ length: 4_100 }, (_, i) => `[t${i}]`).join("\n")],
  ["more inline tables than anybody needs", `a = [${"{b=1},".repeat(2_000)}]`],
  ["100,000 comment lines", "#\n".repeat(100_000)],
  ["one string of a megabyte", `a = "${"x".repeat(1e6)}"`],
  ["a table named __proto__", "[__proto__]\npolluted = true"],
  ["a table named cerebrium.__proto__", "[cerebrium.__proto__]\npolluted = true"],
  ["an inline __proto__", "scaling = { __proto__ = { polluted = true } }"],
  ["a dotted constructor.prototype", "constructor.prototype.polluted = true"],
  ["a package named __proto__", '[dependencies.pip]\n__proto__ = "1"'],
  ["a key given twice", "[scaling]\ncooldown = 1\ncooldown = 2"],
  ["a table given twice", "[scaling]\ncooldown = 1\n[scaling]\nmin_replicas = 2"],
  ["a value used as a table", "a = 1\na.b = 2"],
  ["a date for a number", "[scaling]\ncooldown = 1979-05-27T07:32:00Z"],
  ["a time for a text", "[deployment]\nname = 07:32:00"],
  ["an infinity", "[hardware]\ncpu = inf"],
  ["a negative infinity", "[hardware]\ncpu = -inf"],
  ["no number", "[hardware]\nmemory = nan"],
  ["an integer past 2^53", "[scaling]\nmax_queue = 9007199254740993"],
  ["an integer past 2^63", "[scaling]\nmax_queue = 9223372036854775808"],
  ["an integer of 10,000 digits", `[scaling]\nmax_queue = 1${"0".repeat(10_000)}`],
  ["a list of tables for a table", "[[scaling]]\ncooldown = 1"],
  ["a control character", 'a = "\u0000"'],
  ["an unfinished string", '[deployment]\nname = "hunter2'],
])("%s is one problem within the time of a test, and pollutes nothing", (_, text) => {
  const outcome = outcomeOf(text);
  expect(outcome).toBeInstanceOf(ConfigError);
  expect((outcome as ConfigError).problems).toHaveLength(1);
  expect((outcome as ConfigError).message).not.toContain("hunter2");
  expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
});

test.each([
  ["comment lines", "#\n".repeat(32_000)],
  ["unknown keys", Array.from({ length: 3_900 }, (_, i) => `k${i} = 1`).join("\n")],
  ["unknown tables", Array.from({ length: 3_900 }, (_, i) => `[t${i}]`).join("\n")],
  ["long unknown keys", Array.from({ length: 20 }, (_, i) => `${"k".repeat(3_000)}${i} = 1`).join("\n")],
])("a file full of %s is read within the time of a test, with at most 101 short warnings", (_, text) => {
  const { warnings } = readAppConfig({ toml: { text, fileName: "millrace.toml" }, host: HOST });
  expect(warnings.length).toBeLessThanOrEqual(101);
  for (const warning of warnings) expect(warning.length).toBeLessThan(200);
});

/** Lone surrogates and control characters too. */
const anyText = fc.array(fc.nat(0xffff), { maxLength: 12 }).map((units) => String.fromCharCode(...units));
const name = fc.oneof(
  fc.constantFrom(...APP_KEYS.flatMap(({ path }) => path.split(".")), "cerebrium", "response_grace_period"),
  fc.constantFrom("pip", "toString", "hasOwnProperty", "valueOf", "length", ""),
  anyText,
);
const leaf = fc.oneof(
  fc.integer(),
  fc.double(),
  fc.boolean(),
  fc.string({ maxLength: 12 }),
  fc.date({ noInvalidDate: true }),
  fc.constantFrom("15m", "1h", "32MiB", "auto", "3.12", "CPU", 1, 2, 900),
);
const { table } = fc.letrec<{ table: Record<string, unknown>; value: unknown }>((tie) => ({
  table: fc.dictionary(name, tie("value"), { maxKeys: 6, noNullPrototype: true }),
  value: fc.oneof({ maxDepth: 4 }, leaf, tie("table"), fc.array(leaf, { maxLength: 3 })),
}));

test("whatever tables a file holds, the answer is a whole config or a ConfigError", () => {
  fc.assert(
    fc.property(table, (tables) => {
      expectWholeOrRefused(outcomeOf(tomlOf(tables)));
    }),
    { numRuns: 500 },
  );
});

test("the tables of the test above are refused and accepted, both often enough", () => {
  const outcomes = fc.sample(table, 200).map((tables) => outcomeOf(tomlOf(tables)) instanceof ConfigError);
  expect(outcomes.filter((refused) => refused).length).toBeGreaterThan(10);
  expect(outcomes.filter((refused) => !refused).length).toBeGreaterThan(10);
});

test("whatever values a payload holds, the answer is a whole config or a ConfigError", () => {
  const members = APP_KEYS.flatMap(({ payload }) => payload ?? []);
  const member = fc.oneof(fc.constantFrom(...members, "runtime", "cerebrium_toml"), fc.string());
  fc.assert(
    fc.property(fc.oneof(fc.dictionary(member, fc.anything()), fc.anything()), (payload) => {
      expectWholeOrRefused(outcomeOf("", payload));
    }),
    { numRuns: 500 },
  );
});

test("whatever text a file holds, the answer is a whole config or a ConfigError", () => {
  const pieces = fc.constantFrom(
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ".",
    ",",
    '"',
    "'",
    '"""',
    "\n",
    "#",
    "\\u",
    "1",
    "e9",
    "scaling",
    "cooldown",
    "cerebrium",
    "__proto__",
    "constructor",
    "nan",
    "1979-05-27",
    "\r",
    "\t",
  );
  const text = fc.oneof(
    fc.array(pieces, { maxLength: 60 }).map((parts) => parts.join("")),
    anyText,
  );
  fc.assert(
    fc.property(text, (toml) => expectWholeOrRefused(outcomeOf(toml))),
    { numRuns: 2_000 },
  );
});

test("a value on its bound is taken and one past it is not, for every bounded key", () => {
  const bounded = APP_KEYS.flatMap((key) => {
    const [, min, max] = / from (\d[\w.]*) to (\d[\w.]*)$/.exec(key.reader.expects) ?? [];
    return min === undefined || max === undefined ? [] : [{ key, min, max }];
  });
  expect(bounded.length).toBeGreaterThan(20);
  for (const { key, min, max } of bounded) {
    const read = (text: string): unknown => key.reader.read(key.reader.fromText?.(text) ?? text);
    const [low, high] = [read(min), read(max)];
    expect([key.path, typeof low, typeof high]).toEqual([key.path, "number", "number"]);
    expect([key.path, key.reader.read((low as number) - 1)]).toEqual([key.path, undefined]);
    expect([key.path, key.reader.read((high as number) + 1)]).toEqual([key.path, undefined]);
  }
});

function outcomeOf(text: string, payload?: unknown): unknown {
  try {
    return readAppConfig({ payload, toml: { text, fileName: "millrace.toml" }, host: HOST }).config;
  } catch (error) {
    return error;
  }
}

function expectWholeOrRefused(outcome: unknown): void {
  if (outcome instanceof ConfigError) {
    if (outcome.problems.length === 0 || outcome.problems.some((problem) => problem.includes("\n"))) {
      throw new Error(`not one line per problem: ${outcome.message}`);
    }
    return;
  }
  if (outcome instanceof Error) throw outcome;
  const json = JSON.stringify(outcome, (_, value: unknown) => (value === undefined ? "MISSING" : value));
  if (json.includes('"MISSING"')) throw new Error(`a field was left out: ${json}`);
}

/** What the writer itself cannot express is no file anyone could have sent. */
function tomlOf(tables: Record<string, unknown>): string {
  try {
    return stringify(tables);
  } catch {
    return "";
  }
}
