import { expect, test } from "vitest";
import { READ_LIMITS, readKind } from "../../../../src/store/postgres/read-kinds.ts";
import { verifies } from "../../../verifies.ts";

test("reads of runs, of lines, of the service's own, and all the rest", () => {
  const names = ["runs.find", "transcripts.next", "versions.inUse", "buildLines.list", "versions.find"];
  expect(names.map(readKind)).toEqual(["runs", "runs", "own", "lines", "rest"]);
  expect(["tokens.findByJtiHash", "meta.get"].map(readKind)).toEqual(["rest", "rest"]);
  expect(["appOwners.find", "appOwners.owned"].map(readKind)).toEqual(["places", "own"]);
});

verifies(
  "reads.in-time",
  "a read that somebody waits for is given up within 5 s, with the time to get a connection",
  () => {
    const { runs, lines, places, rest } = READ_LIMITS;
    for (const { waitMs, statementMs, answerMs } of [runs, lines, places, rest]) {
      expect(waitMs + statementMs!).toBeLessThan(5_000);
      expect(answerMs).toBeLessThan(5_000);
    }
  },
);
