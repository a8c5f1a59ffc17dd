import { expect, test } from "vitest";
import { RENEW_MS } from "../../../../src/nodes/lease.ts";
import { operationNamed } from "../../../../src/store/operations.ts";
import { IDLE_MS } from "../../../../src/store/postgres/connection.ts";
import { SORTED_WRITES, WRITE_LIMITS, writeKind } from "../../../../src/store/postgres/write-kinds.ts";
import { verifies } from "../../../verifies.ts";

test("every write that is sorted is an operation, and one that writes", () => {
  for (const name of SORTED_WRITES) expect([name, operationNamed(name).mode]).not.toEqual([name, "read"]);
  expect([writeKind("nodes.renew"), writeKind("people.insertFirst")]).toEqual(["lease", "manage"]);
});

test("what a caller waits for is given up within 5 s", () => {
  for (const kind of ["accept", "keyed", "claim", "manage"] as const) {
    expect(WRITE_LIMITS[kind].statementMs).toBeLessThan(5_000);
    expect(WRITE_LIMITS[kind].answerMs).toBeLessThan(5_000);
  }
  const { waitMs, statementMs } = WRITE_LIMITS.manage;
  expect(waitMs + statementMs!).toBeLessThan(5_000);
});

verifies(
  "lease.standstill",
  "what a service holds that stands still is free before callers are refused",
  () => {
    // It is freed by then, and a statement that has waited for it has a second left.
    for (const kind of ["accept", "keyed", "claim"] as const)
      expect(WRITE_LIMITS[kind].statementMs! - IDLE_MS).toBeGreaterThanOrEqual(1_000);
  },
);

verifies("lease.dead-connection", "a lease outlives any one connection that dies without a word", () => {
  // The sign of life itself is given up before the next one is due, which then has the one connection.
  expect(WRITE_LIMITS.lease.answerMs).toBeLessThan(RENEW_MS);
  // No other write touches its row, so none that is not committed can keep it waiting.
  expect(SORTED_WRITES.filter((name) => writeKind(name) === "lease")).toEqual(["nodes.renew"]);
});
