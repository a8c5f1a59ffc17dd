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
    const operation = `${method} ${path}`;
    const said = listed.find((row) => row.operation === operation)?.who;
    // Which of those that take any token take only a person's is known to the operation itself.
    const ofAny = said === "a person" ? said : "any token";
    const who = access === null ? "anybody" : access === "any" ? ofAny : `\`${access}\``;
    return { operation, who, summary };
  });
  expect(known.length).toBeGreaterThan(40);
  expect(listed).toEqual(known);
});
