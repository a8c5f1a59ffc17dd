import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { specifiersOf } from "../../support/import-graph.ts";
import { readSources, REPOSITORY } from "../../support/source-files.ts";

const files = readSources(["src/client"], [".ts"]);

test("the TypeScript client imports nothing but its own files", () => {
  expect(files.size).toBeGreaterThan(5);
  const foreign = [...files].flatMap(([file, text]) =>
    specifiersOf(text)
      .filter((specifier) => !specifier.startsWith("./"))
      .map((specifier) => `${file}: ${specifier}`),
  );
  expect(foreign).toEqual([]);
});

test("it compiles with a browser's types alone, as strictly as anything here", async () => {
  const strict = ["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"];
  const target = ["--target", "es2024", "--module", "nodenext", "--types", ""];
  const lib = ["--lib", "es2024,dom,dom.iterable,dom.asynciterable"];
  const args = ["--ignoreConfig", "--noEmit", "--allowImportingTsExtensions", ...strict, ...target, ...lib];
  const tsc = path.join(REPOSITORY, "node_modules/.bin/tsc");
  const { stdout } = await promisify(execFile)(tsc, [...args, "src/client/client.ts"], {
    cwd: REPOSITORY,
  });
  expect(stdout).toBe("");
});
