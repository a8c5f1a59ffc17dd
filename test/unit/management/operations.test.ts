import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { allOperations } from "../../../src/management/operations.ts";
import { REPOSITORY } from "../../support/source-files.ts";

const ROW = /^\| `([A-Z]+ \S+)` \| (.+?) \| (.+) \|$/gm;

test("the document lists the operations, no more and no less, in their own words", () => {
  const text = readFileSync(join(REPOSITORY, "docs/management.md"), "utf8");
  const listed = [...text.matchAll(ROW)].map(([, operation = "", who = "", summary = ""]) => ({
    operation: operation.replace("…/", "/v2/projects/{project_id}/"),
    who,
    summary,
  }));
  const known = allOperations({} as never).map(({ method, path, access, summary }) => {
    const words: Readonly<Record<string, string>> = {
      anybody: "anybody",
      any: "any token",
      person: "a person",
      operator: "the operator",
    };
    const who = words[access ?? "anybody"] ?? `\`${access}\``;
    return { operation: `${method} ${path}`, who, summary };
  });
  expect(known.length).toBeGreaterThan(40);
  expect(listed).toEqual(known);
});
