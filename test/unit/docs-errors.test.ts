import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ERRORS } from "../../src/model/errors.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { verifies } from "../verifies.ts";

type Catalogue = Readonly<Record<string, { readonly status: number; readonly type: string }>>;

const ROW = /^\| `([a-z_]+)` \| (\d{3}) \| ([a-z_]+) \| (.*) \|$/gm;

/** Where the document's table and the catalogue differ, one line each. */
function differences(document: string, catalogue: Catalogue): string[] {
  const found: string[] = [];
  const documented = new Set<string>();
  for (const [, code = "", status, type, when = ""] of document.matchAll(ROW)) {
    if (documented.has(code)) found.push(`${code} is documented twice`);
    documented.add(code);
    const entry = Object.hasOwn(catalogue, code) ? catalogue[code] : undefined;
    if (!entry) found.push(`${code} is documented and not in the catalogue`);
    else if (Number(status) !== entry.status)
      found.push(`${code} is ${entry.status}, documented as ${status}`);
    else if (type !== entry.type) found.push(`${code} is of type ${entry.type}, documented as ${type}`);
    if (when.trim() === "") found.push(`${code} does not say when`);
  }
  const missing = Object.keys(catalogue).filter((code) => !documented.has(code));
  return [...found, ...missing.map((code) => `${code} is not documented`)];
}

verifies("errors.catalogue", "the document lists the catalogue, no more and no less", () => {
  const document = readFileSync(join(REPOSITORY, "docs/errors.md"), "utf8");
  expect([...document.matchAll(ROW)].length).toBeGreaterThan(20);
  expect(document.match(/^\| `/gm)?.length).toBe([...document.matchAll(ROW)].length);
  expect(differences(document, ERRORS)).toEqual([]);
});

describe("the comparison finds planted differences", () => {
  const catalogue = {
    lost: { status: 404, type: "not_found_error" },
    slow: { status: 504, type: "app_error" },
  };
  const lost = "| `lost` | 404 | not_found_error | It is gone. |\n";
  const slow = "| `slow` | 504 | app_error | It took too long. |\n";

  test("a document that agrees has none", () => {
    expect(differences(lost + slow, catalogue)).toEqual([]);
  });

  test.each([
    ["a code that is not documented", lost, "slow is not documented"],
    [
      "a code that does not exist",
      lost + slow + slow.replace("slow", "odd"),
      "odd is documented and not in the catalogue",
    ],
    ["another status", lost + slow.replace("504", "500"), "slow is 504, documented as 500"],
    ["another type", lost + slow.replace("app_error", "odd"), "slow is of type app_error, documented as odd"],
    ["a row twice", lost + slow + lost, "lost is documented twice"],
    ["a row without its case", lost + slow.replace("It took too long.", ""), "slow does not say when"],
    [
      "a name of every object",
      lost + slow + slow.replace("slow", "constructor"),
      "constructor is documented and not in the catalogue",
    ],
  ])("%s is found", (_, document, difference) => {
    expect(differences(document, catalogue)).toEqual([difference]);
  });
});
