import { expect, test } from "vitest";
import { RunTally } from "../../../src/model/run-tally.ts";

test("runs are counted by app and state", () => {
  const tally = new RunTally();
  tally.add(1, "success");
  tally.add(1, "success");
  tally.add(7, "failure");
  expect([...tally.byApp]).toEqual([
    [1, { queued: 0, running: 0, success: 2, failure: 0, cancelled: 0 }],
    [7, { queued: 0, running: 0, success: 0, failure: 1, cancelled: 0 }],
  ]);
});
