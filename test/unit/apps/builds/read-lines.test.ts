import { PassThrough, Readable } from "node:stream";
import { expect, test } from "vitest";
import { readLines } from "../../../../src/apps/builds/read-lines.ts";

async function linesOf(pieces: readonly (string | Buffer)[]): Promise<string[]> {
  const lines: string[] = [];
  await readLines(Readable.from(pieces.map((piece) => Buffer.from(piece))), (text) => lines.push(text));
  return lines;
}

test("lines end with a line break or a carriage return, however they are cut", async () => {
  expect(await linesOf(["one\ntw", "o\r\nthree\r", "\n10%\r20%\rfour"])).toEqual([
    "one",
    "two",
    "three",
    "10%",
    "20%",
    "four",
  ]);
});

test("a character that comes in two pieces is whole, and a long line comes in several", async () => {
  const bytes = Buffer.from("é\n");
  expect(await linesOf([bytes.subarray(0, 1), bytes.subarray(1)])).toEqual(["é"]);
  const pieces = await linesOf(["x".repeat(40_000), `${"y".repeat(40_000)}\nend`]);
  expect(pieces.join("")).toBe(`${"x".repeat(40_000)}${"y".repeat(40_000)}end`);
  expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThanOrEqual(16 * 1024);
});

test("a stream that is closed under it ends the reading with what came", async () => {
  const stream = new PassThrough();
  const lines: string[] = [];
  const read = readLines(stream, (text) => {
    lines.push(text);
    stream.destroy();
  });
  stream.write("one\n");
  await read;
  expect(lines).toEqual(["one"]);
});
