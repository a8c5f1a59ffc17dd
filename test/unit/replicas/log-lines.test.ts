import type { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { readLogLines } from "../../../src/replicas/log-lines.ts";
import type { LogLine } from "../../../src/replicas/log-lines.ts";
import { until } from "../../support/until.ts";

const PIECE = 64 * 1024;

/** The lines in what arrives, in such pieces. */
async function linesOf(...arrivals: string[]): Promise<LogLine[]> {
  const lines: LogLine[] = [];
  const stream = new PassThrough();
  readLogLines(stream as unknown as Socket, "stdout", (line) => lines.push(line));
  for (const text of arrivals) {
    stream.write(text);
    await new Promise((resolve) => setImmediate(resolve));
  }
  stream.end();
  await new Promise((resolve) => stream.once("end", resolve));
  return lines;
}

test("lines carry the run of their tag, however they arrive", async () => {
  expect(
    await linesOf("\x1eone\x1ffir", "st\r\n\x1etw", "o\x1fsecond\nbare\n\x1e\x1fouts", "ide\nrest"),
  ).toEqual([
    { stream: "stdout", text: "first", runId: "one" },
    { stream: "stdout", text: "second", runId: "two" },
    { stream: "stdout", text: "bare", runId: null },
    { stream: "stdout", text: "outside", runId: null },
    { stream: "stdout", text: "rest", runId: null },
  ]);
});

test.each([
  ["in one go", [`\x1eone\x1f${"x".repeat(3 * PIECE)}\nnext\n`]],
  ["bit by bit", ["\x1eone\x1f", ..."abc".split("").map(() => "x".repeat(PIECE)), "\nnext\n"]],
])("a line that is too long comes in pieces, all of its run, %s", async (_, arrivals) => {
  const lines = await linesOf(...arrivals);
  const next = lines.pop();
  expect(lines.length).toBeGreaterThan(3);
  expect(lines.every(({ runId, text }) => runId === "one" && text.length <= PIECE)).toBe(true);
  expect(lines.map(({ text }) => text).join("")).toBe("x".repeat(3 * PIECE));
  expect(next).toEqual({ stream: "stdout", text: "next", runId: null });
});

test("a flood is read in slices: others get their turn in between, and no line is lost", async () => {
  const count = 200_000;
  let turns = 0;
  const others = setInterval(() => (turns += 1), 1);
  try {
    const stream = new PassThrough();
    const numbers: number[] = [];
    readLogLines(stream as unknown as Socket, "stdout", ({ text }) => numbers.push(Number(text)));
    stream.end(Array.from({ length: count }, (_, i) => `${i}\n`).join(""));
    // The end is known before all of it is read.
    await until("all lines are here", () => numbers.length >= count);
    expect([numbers.length, numbers.findIndex((number, i) => number !== i)]).toEqual([count, -1]);
  } finally {
    clearInterval(others);
  }
  expect(turns).toBeGreaterThan(5);
});
