import { array, assert, constantFrom, nat, property, string } from "fast-check";
import { expect, test } from "vitest";
import { BLOCK_LINES, LineBlocks, linesOf } from "../../../../src/runs/batches/line-blocks.ts";

/** The lines of an upload that arrives in these pieces, and the sizes of its blocks. */
function cut(pieces: readonly Buffer[], maxLineBytes = 1_000, wanted: number | null = null) {
  const blocks = new LineBlocks(maxLineBytes);
  blocks.wantedLines = wanted;
  const lines: string[] = [];
  const counts: number[] = [];
  const takeAll = (): void => {
    for (let block = blocks.take(); block; block = blocks.take()) {
      counts.push(block.lineCount);
      const of = linesOf(block.bytes).map(String);
      expect(of).toHaveLength(block.lineCount);
      lines.push(...of);
    }
  };
  for (const piece of pieces) {
    for (let isDone = blocks.push(piece); !isDone; isDone = blocks.push(null)) takeAll();
    takeAll();
  }
  blocks.end();
  const rest = blocks.rest();
  if (rest) {
    counts.push(rest.lineCount);
    lines.push(...linesOf(rest.bytes).map(String));
  }
  return { lines, counts };
}

test("lines end with any line end, or with the upload; empty ones are left out", () => {
  expect(cut([Buffer.from("\ufeffa\r\n\n \t\r\nb\n\u0000\nc")]).lines).toEqual(["a", "b", "\u0000", "c"]);
  expect(cut([Buffer.from("\n\n")])).toEqual({ lines: [], counts: [] });
});

test("of a line that is too long a mark is left, however it arrives", () => {
  const long = Buffer.from(`a\n${"x".repeat(5_000)}\nb\n${"y".repeat(1_001)}`);
  const inOne = cut([long]).lines;
  expect(inOne).toEqual(["a", "\0too long", "b", "\0too long"]);
  expect(cut(Array.from(long, (byte) => Buffer.of(byte))).lines).toEqual(inOne);
});

test("blocks end after some lines, or as many as are wanted", () => {
  const upload = Buffer.from("1\n".repeat(BLOCK_LINES * 2 + 1));
  expect(cut([upload]).counts).toEqual([BLOCK_LINES, BLOCK_LINES, 1]);
  expect(cut([Buffer.from("1\n2\n3\n")], 1_000, 2).counts).toEqual([2, 1]);
});

test("how an upload is cut into pieces changes nothing", () => {
  const line = string({ unit: constantFrom("a", " ", "é", '"', "\u0000"), maxLength: 30 });
  assert(
    property(array(line, { maxLength: 40 }), array(nat(200)), (lines, cuts) => {
      const whole = Buffer.from(lines.join("\n"));
      const ends = [...cuts.map((at) => Math.min(at, whole.length)), whole.length].toSorted((a, b) => a - b);
      const pieces = ends.map((end, i) => whole.subarray(ends[i - 1] ?? 0, end));
      expect(cut(pieces, 12)).toEqual(cut([whole], 12));
    }),
  );
});
