import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import type { FunctionSignature, Parameter } from "../../../src/model/app.ts";
import { misfits } from "../../../src/model/arguments.ts";

/** A function's parameters as Python writes them. */
const SIGNATURES = [
  "",
  "a",
  "a, b=1",
  "*, b, a=2",
  "a, /, b, *, c=3",
  "a, *rest",
  "**others",
  "a, b=1, **others",
  "a, run_id",
  "run_id=None, *, z",
  "run_id, **others",
  "a, **run_id",
  "a=1, b=2, /, c=3",
  "run_id, /, a, **others",
  "a, *rest, b, z=1, **others",
  "rest, **others",
];
const NAMES = ["a", "b", "c", "z", "other", "run_id", "others", "rest", "\u{1F600}", "\uFF5E", "é", ""];

/** Asks the harness: signatures as it describes them, and what it finds wrong with each set of names. */
const SCRIPT = `
import json, sys
from millrace_worker.bind import Entry
entries = []
answers = []
for case in json.load(sys.stdin):
    scope = {}
    exec("def run(%s): pass" % case["signature"], scope)
    entry = Entry("run", scope["run"], scope["run"], case["ignoresExtra"])
    details, more = entry.misfits({name: 1 for name in case["given"]})
    answers.append({"described": entry.describe(), "found": {"details": details, "more": more}})
json.dump(answers, sys.stdout)
`;

type Case = { readonly signature: string; readonly given: readonly string[]; readonly ignoresExtra: boolean };
type Told = {
  readonly described: {
    readonly name: string;
    readonly parameters: readonly Parameter[];
    readonly wants_run_id: boolean;
  };
  readonly found: unknown;
};

function askHarness(cases: readonly Case[]): Told[] {
  const cwd = fileURLToPath(new URL("../../../python", import.meta.url));
  const input = JSON.stringify(cases);
  return JSON.parse(execFileSync("python3", ["-c", SCRIPT], { cwd, input, encoding: "utf8" })) as Told[];
}

test("finds what the harness finds, in the same order", () => {
  const cases = fc.sample(
    fc.record({
      signature: fc.constantFrom(...SIGNATURES),
      given: fc.subarray(NAMES, { maxLength: 6 }).chain((names) => fc.shuffledSubarray(names)),
      ignoresExtra: fc.boolean(),
    }),
    500,
  );
  const told = askHarness(cases);
  for (const [i, { given, ignoresExtra, signature }] of cases.entries()) {
    const { described, found } = told[i] as Told;
    const { name, parameters, wants_run_id: wantsRunId } = described;
    const kept: FunctionSignature = {
      name,
      parameters,
      wantsRunId,
      isAsync: false,
      isGenerator: false,
      doc: null,
    };
    expect([signature, given, misfits(kept, given, ignoresExtra)]).toEqual([signature, given, found]);
  }
  expect(told.some(({ found }) => (found as { details: unknown[] }).details.length > 2)).toBe(true);
});
