import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readFilePath, readVolumePath } from "../../../../src/apps/volumes/volume-files.ts";

test.each([
  ["", []],
  ["/", []],
  [".", []],
  ["./", []],
  ["a", ["a"]],
  ["/a/b", ["a", "b"]],
  ["a//b/./c/", ["a", "b", "c"]],
  ["...", ["..."]],
  ["a\\..\\b", ["a\\..\\b"]],
  ["%2e%2e/x", ["%2e%2e", "x"]],
])("the path %j", (text, names) => {
  expect(readVolumePath(text)).toEqual(names);
});

describe("what is no path", () => {
  test.each(["..", "/..", "a/../b", "a/..", "\0", "a\0b", "\ud800", "x".repeat(256), "a/".repeat(2001)])(
    "%j",
    (text) => {
      expect(() => readVolumePath(text)).toThrow("The path");
    },
  );

  test.each(["", "/", ".", "a/", "a/.", "/."])("%j as a file's", (text) => {
    expect(() => readFilePath(text)).toThrow("The path names a folder");
  });
});

test("no path leads upwards, whatever it is made of", () => {
  const piece = fc.constantFrom("..", ".", "/", "a", "\\", "%2e", " ", "\n", "..a", "é");
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      let names: readonly string[];
      try {
        names = readVolumePath(pieces.join(""));
      } catch {
        return;
      }
      for (const name of names)
        expect(name === ".." || name === "." || name === "" || name.includes("/")).toBe(false);
    }),
  );
});
