import { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { LAST_LINES_MS, LogSockets, type PrintedLine, readLogLines } from "../../../src/engines/log-lines.ts";
import { HeldClock } from "../../support/held-clock.ts";

const PIECE = 64 * 1024;
const ONE = "0190a3c4-0000-7000-8000-000000000001";
const TWO = "0190a3c4-0000-7000-8000-000000000002";

/** The lines in what arrives, in such pieces. */
async function linesOf(...arrivals: string[]): Promise<PrintedLine[]> {
  const lines: PrintedLine[] = [];
  const stream = new PassThrough();
  const reading = readLogLines(stream, "stdout", (line) => lines.push(line));
  for (const text of arrivals) {
    stream.write(text);
    await new Promise((resolve) => setImmediate(resolve));
  }
  stream.end();
  await reading;
  return lines;
}

test("lines carry the run of their tag, however they arrive", async () => {
  expect(
    await linesOf(`\x1e${ONE}\x1ffir`, "st\r\n\x1e", `${TWO}\x1fsecond\nbare\n\x1e\x1fouts`, "ide\nrest"),
  ).toEqual([
    { stream: "stdout", text: "first", runId: ONE },
    { stream: "stdout", text: "second", runId: TWO },
    { stream: "stdout", text: "bare", runId: null },
    { stream: "stdout", text: "outside", runId: null },
    { stream: "stdout", text: "rest", runId: null },
  ]);
});

test.each([
  ["in one go", [`\x1e${ONE}\x1f${"x".repeat(3 * PIECE)}\nnext\n`]],
  ["bit by bit", [`\x1e${ONE}\x1f`, ..."abc".split("").map(() => "x".repeat(PIECE)), "\nnext\n"]],
])("a line that is too long comes in pieces, all of its run, %s", async (_, arrivals) => {
  const lines = await linesOf(...arrivals);
  const next = lines.pop();
  expect(lines.length).toBeGreaterThan(3);
  expect(lines.every(({ runId, text }) => runId === ONE && text.length <= PIECE)).toBe(true);
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
    const reading = readLogLines(stream, "stdout", ({ text }) => numbers.push(Number(text)));
    stream.end(Array.from({ length: count }, (_, i) => `${i}\n`).join(""));
    // The end is known before all of it is read.
    await reading;
    expect([numbers.length, numbers.findIndex((number, i) => number !== i)]).toEqual([count, -1]);
  } finally {
    clearInterval(others);
  }
  expect(turns).toBeGreaterThan(5);
});

test("a tag that is no run's id is none: nobody remembers what an app makes up", async () => {
  const madeUp = ["x".repeat(5_000), ONE.toUpperCase(), `${ONE} `, "../..", "é"];
  const lines = await linesOf(...madeUp.map((tag) => `\x1e${tag}\x1ftext\n`), "\x1eno end\n");
  expect(lines.slice(0, -1)).toEqual(madeUp.map(() => ({ stream: "stdout", text: "text", runId: null })));
  expect(lines.at(-1)).toEqual({ stream: "stdout", text: "\x1eno end", runId: null });
});

test("what a reader of lines throws ends the reading, and is told", async () => {
  const stream = new PassThrough();
  const reading = readLogLines(stream, "stdout", () => {
    throw new Error("no room");
  });
  stream.write("one\ntwo\n");
  await expect(reading).rejects.toThrow("no room");
  expect(stream.destroyed).toBe(true);
});

test("a connection that comes after its process has ended is closed with the others", () => {
  const clock = new HeldClock();
  clock.hold();
  const logs = new LogSockets("", { onLog: () => {}, onError: () => {} });
  logs.close(clock);
  const late = new Socket();
  expect(logs.take("stdout", late)).toBe(true);
  clock.advance(LAST_LINES_MS - 1);
  expect(late.destroyed).toBe(false);
  clock.advance(1);
  expect(late.destroyed).toBe(true);
});
