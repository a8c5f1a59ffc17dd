import { PassThrough, Readable } from "node:stream";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { verifies } from "../../verifies.ts";
import { readLines } from "../../../src/engines/programs/run-program.ts";

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

verifies(
  "wire.fault.alone",
  "whatever a build or a file prints comes as short lines, and as all of them",
  async () => {
    const sign = fc.constantFrom(0x0a, 0x0d, 0x00, 0x1b, 0x1e, 0x1f, 0x61, 0xc3, 0xa9, 0xff, 0xf0, 0x9f);
    const bytes = fc.array(sign, { maxLength: 200 }).map((signs) => Buffer.from(signs));
    await fc.assert(
      fc.asyncProperty(fc.array(bytes, { maxLength: 6 }), fc.nat({ max: 40_000 }), async (pieces, length) => {
        const all = [...pieces, Buffer.alloc(length, "x")];
        const lines = await linesOf(all);
        const joined = (texts: readonly string[]) => texts.join("").replaceAll(/[\r\n]/g, "");
        expect(joined(lines)).toBe(joined([Buffer.concat(all).toString()]));
        expect(lines.every((line) => Buffer.byteLength(line) <= 3 * 16 * 1024)).toBe(true);
      }),
      { numRuns: 200 },
    );
  },
);
