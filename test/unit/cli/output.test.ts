import { describe, expect, test } from "vitest";
import {
  bytes,
  duration,
  fields,
  paint,
  printable,
  printableName,
  relative,
  tableOf,
} from "../../../src/cli/output.ts";
import { readEnvelope } from "../../../src/cli/client/print-answer.ts";
import { HIDDEN_SAMPLES, hiddenIn } from "../../support/hidden-characters.ts";
import { verifies } from "../../verifies.ts";

function table(headings: readonly string[], rows: readonly (readonly string[])[], width?: number): string {
  const columns = headings.map(
    (heading, at) => [heading, (row: readonly string[]) => row[at] ?? ""] as const,
  );
  return tableOf(rows, Object.fromEntries(columns), width);
}

const NOW = Date.UTC(2026, 0, 15, 12);
const at = (seconds: number): string => new Date(NOW + seconds * 1000).toISOString();

describe("amounts", () => {
  test("times are told in one unit, before and ahead", () => {
    expect(
      [0, -1, -59, -60, -3_599, -3_600, -86_399, -86_400, -864_000].map((s) => relative(at(s), NOW)),
    ).toEqual([
      "now",
      "1 s ago",
      "59 s ago",
      "1 min ago",
      "59 min ago",
      "1 h ago",
      "23 h ago",
      "1 d ago",
      "10 d ago",
    ]);
    expect([relative(at(90), NOW), relative(null), relative(undefined)]).toEqual(["in 1 min", "–", "–"]);
  });

  test("durations and sizes are told in the units that fit", () => {
    expect([0.01, 3.14, 310.4, 4_200, 60_000, 190_000, 3_600_000, 5_400_000, null].map(duration)).toEqual([
      "0.01 ms",
      "3.1 ms",
      "310 ms",
      "4.2 s",
      "1 min",
      "3 min 10 s",
      "1 h",
      "1 h 30 min",
      "–",
    ]);
    expect([0, 999, 1_000, 1_500_000, 2e9].map(bytes)).toEqual([
      "0 B",
      "999 B",
      "1.0 KB",
      "1.5 MB",
      "2.0 GB",
    ]);
  });
});

describe("tables", () => {
  const rows = [
    ["hello", "ready", "x"],
    ["a-long-name", "cold", ""],
  ];

  test("columns are aligned, and nothing stands behind the last", () => {
    expect(table(["APP", "STATUS", "NOTE"], rows)).toBe(
      ["APP          STATUS  NOTE", "hello        ready   x", "a-long-name  cold", ""].join("\n"),
    );
    expect(
      fields([
        ["id", "1"],
        ["status", "ready"],
      ]),
    ).toBe("id      1\nstatus  ready\n");
  });

  test("lines are cut to the terminal's width, colours not counted", () => {
    const coloured = [["hello", "\u{1b}[32mready\u{1b}[39m", "x".repeat(40)]];
    const [, cut = "", ...rest] = table(["APP", "STATUS", "NOTE"], coloured, 20).split("\n");
    expect([cut, rest]).toEqual(["hello  ready   xxxx…", [""]]);
    const [, whole = ""] = table(["APP", "STATUS", "NOTE"], [coloured[0]!.slice(0, 2)], 20).split("\n");
    expect(whole).toBe("hello  \u{1b}[32mready\u{1b}[39m");
  });
});

describe("text from outside", () => {
  verifies("hardening.steering", "nothing in it steers the terminal or hides in it", () => {
    expect(printable("a\u{1b}[31mb\r\tc\u{9b}d\ne")).toBe("a<ESC>[31mb<CR>  c<U+009B>d\ne");
    const every = HIDDEN_SAMPLES.join("x");
    for (const shown of [printable(every), printableName(every), printableName("a\nb\tc")]) {
      expect([hiddenIn(shown), /[\n\t]/.test(shown)]).toEqual([[], false]);
    }
  });

  verifies(
    "hardening.steering",
    "tables and fields keep colours and nothing else, whatever their callers give them",
    () => {
      const cell = `${paint("green", "ready")} \u{1b}]0;title\u{7}\u202Eabc\nnext`;
      const [, row = "", ...rest] = table(["A", "B"], [[cell, "x"]]).split("\n");
      const [field = "", ...more] = fields([["a", cell]]).split("\n");
      expect([rest, more]).toEqual([[""], ["   next", ""]]);
      // Colours are off here: what is left would reach the terminal.
      for (const line of [row, field]) expect([line, hiddenIn(line)]).toEqual([line, []]);
      const coloured = "\u{1b}[32mready\u{1b}[39m";
      expect(table(["A"], [[coloured]])).toContain(coloured);
    },
  );

  test("an answer is taken apart byte for byte, also when the result looks like its end", () => {
    const id = "019a8a3e-6c51-7d0e-b7f1-54a2f0d1c9aa";
    const result = '{"s":",\\"run_time_ms\\":1}","n":1.0}';
    expect(readEnvelope(`{"run_id":"${id}","result":${result},"run_time_ms":0.5}`)).toEqual({
      runId: id,
      result,
      runTimeMs: 0.5,
    });
    expect(readEnvelope('{"message":"no","code":"x"}')).toBeNull();
  });
});
