import { describe, expect, test } from "vitest";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { shellWords } from "../../../src/config/keys/build.ts";
import { verifies } from "../../verifies.ts";

const HOST = { cpuCount: 4 };

function entrypointOf(entrypoint: unknown): readonly string[] | undefined {
  return readAppConfig({ payload: { runtime: "custom", entrypoint }, host: HOST }).config.customRuntime
    ?.entrypoint;
}

verifies("servers.entrypoint", "a list stays, a text is split, and so is a list of one text", () => {
  const words = ["uvicorn", "main:app", "--host", "0.0.0.0"];
  expect(entrypointOf(words)).toEqual(words);
  expect(entrypointOf("uvicorn main:app --host 0.0.0.0")).toEqual(words);
  expect(entrypointOf(["uvicorn main:app --host 0.0.0.0"])).toEqual(words);
  expect(entrypointOf(["sh", "-c", "a b"])).toEqual(["sh", "-c", "a b"]);
  expect(entrypointOf(["./server"])).toEqual(["./server"]);
  expect(entrypointOf("python\n  serve.py")).toEqual(["python", "serve.py"]);
});

test("what no shell could split, and what is no command at all, is refused with what it should be", () => {
  for (const wrong of ['uvicorn "main', "a\\", 7, [1], { a: 1 }, ["a".repeat(5000)]])
    expect(() => entrypointOf(wrong)).toThrow(/entrypoint must be a list of up to 100 words/);
});

describe("words", () => {
  test.each<[string, readonly string[] | null]>([
    ["", []],
    ["   ", []],
    ["a", ["a"]],
    [" a  b\tc ", ["a", "b", "c"]],
    [`a 'b c' "d e"`, ["a", "b c", "d e"]],
    [`a''b`, ["ab"]],
    [`''`, [""]],
    [`"a\\"b" 'a\\b'`, ['a"b', "a\\b"]],
    [`a\\ b`, ["a b"]],
    [`"a\\nb"`, ["a\\nb"]],
    [`--x="a b"`, ["--x=a b"]],
    ["$PORT ${PORT}", ["$PORT", "${PORT}"]],
    ["'a", null],
    ['"a', null],
    ["a\\", null],
  ])("%j", (text, words) => {
    expect(shellWords(text)).toEqual(words);
  });
});
