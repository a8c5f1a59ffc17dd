import { expect } from "vitest";
import { LastWords } from "../../../src/engines/programs/run-program.ts";
import type { LogStream } from "../../../src/model/log-line.ts";
import { verifies } from "../../verifies.ts";

function wordsOf(...lines: readonly [LogStream, string][]): string {
  const words = new LastWords();
  for (const [stream, text] of lines) words.take(text, stream);
  return words.text;
}

verifies("run-once.status", "why a program failed does not depend on which stream is read first", () => {
  expect(wordsOf(["stderr", "ValueError: no such model"], ["stdout", "so far"])).toBe(
    "ValueError: no such model",
  );
  expect(wordsOf(["stdout", "so far"], ["stderr", "ValueError: no such model"])).toBe(
    "ValueError: no such model",
  );
  const explained = wordsOf(
    ["stderr", "error: no such package"],
    ["stdout", "reading"],
    ["stderr", "  ╰─▶ it is gone"],
  );
  expect(explained).toBe("error: no such package it is gone");
  expect(wordsOf(["stderr", "a warning"], ["stdout", "ERROR: it is here"])).toBe("ERROR: it is here");
  expect(wordsOf(["stdout", "the first"], ["stdout", "the last"], ["stderr", " "])).toBe("the last");
  expect(wordsOf()).toBe("");
});
