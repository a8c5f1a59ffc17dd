import { expect, test } from "vitest";
import { READ_LIMITS, readKind } from "../../../../src/store/postgres/read-kinds.ts";
import { verifies } from "../../../verifies.ts";

test("reads of runs, of lines, and all the rest", () => {
  const names = ["runs.find", "transcripts.next", "versions.inUse", "buildLines.list", "versions.find"];
  expect(names.map(readKind)).toEqual(["runs", "runs", "runs", "lines", "rest"]);
  expect(["tokens.findByJtiHash", "meta.get"].map(readKind)).toEqual(["rest", "rest"]);
});

verifies("reads.in-time", "a read is given up within 5 s, with the time to get a connection", () => {
  for (const { waitMs, statementMs, answerMs } of Object.values(READ_LIMITS)) {
    expect(waitMs + statementMs!).toBeLessThan(5_000);
    expect(answerMs).toBeLessThan(5_000);
  }
});
