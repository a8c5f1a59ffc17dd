import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SPECIAL_4, SPECIAL_6 } from "../../../../src/kit/ip-addresses.ts";
import { REPOSITORY, withoutCommentLines } from "../../../support/source-files.ts";

const read = (name: string): string => readFileSync(join(REPOSITORY, name), "utf8");
const code = (name: string): string => withoutCommentLines(read(`src/runs/webhooks/${name}.ts`));
const document = read("docs/webhooks.md");

test("the document names every range that the code refuses", () => {
  // All that is outside of 2000::/3, and named so.
  const outside: readonly string[] = ["::/3", "4000::/2", "8000::/1"];
  const ranges = [...SPECIAL_4, ...SPECIAL_6].filter((range) => !outside.includes(range));
  expect(ranges.filter((range) => !document.includes(`\`${range}\``))).toEqual([]);
});

test("the document explains every word that an attempt can end with", () => {
  const words = ["sender", "courier", "deliverer"].flatMap((file) =>
    [...code(file).matchAll(/["`]([a-z]+_[a-z_]+|redirect)\b(?=["`:])/g)].map(([, word]) => word),
  );
  expect(new Set(words).size).toBeGreaterThan(12);
  expect(words.filter((word) => !document.includes(`\`${word}\``))).toEqual([]);
});
