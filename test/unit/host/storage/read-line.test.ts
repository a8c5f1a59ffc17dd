import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { readBytes, readLine } from "../../../../src/engines/programs/storage-helper.ts";

/** Lines and bytes by turns, as a helper gives them, in pieces of some size. */
function sourceOf(text: string, pieceBytes: number): PassThrough {
  const source = new PassThrough();
  for (let at = 0; at < text.length; at += pieceBytes) source.write(text.slice(at, at + pieceBytes));
  source.end();
  return source;
}

test.each([1, 2, 3, 1_000])("lines and bytes by turns, in pieces of %i", async (pieceBytes) => {
  const source = sourceOf("5\nab\ncd0\n\nlast\nrest", pieceBytes);
  const size = Number(await readLine(source, 10));
  const pieces: Buffer[] = [];
  for await (const piece of readBytes(source, size)) pieces.push(piece);
  expect(Buffer.concat(pieces).toString()).toBe("ab\ncd");
  const lines = [await readLine(source, 10), await readLine(source, 10), await readLine(source, 10)];
  expect(lines).toEqual(["0", "", "last"]);
  // A line without its end is none.
  expect(await readLine(source, 10)).toBeNull();
});

test("a line that is too long, and bytes that do not come, are errors", async () => {
  await expect(readLine(sourceOf("x".repeat(20), 4), 10)).rejects.toThrow("more than 10 bytes");
  const read = async (): Promise<void> => {
    for await (const piece of readBytes(sourceOf("abc", 2), 4)) expect(piece.length).toBeLessThan(4);
  };
  await expect(read()).rejects.toThrow("in the middle of a file");
});
