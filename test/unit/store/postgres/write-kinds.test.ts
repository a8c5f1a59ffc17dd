import { expect, test } from "vitest";
import { operationNamed } from "../../../../src/store/operations.ts";
import { SORTED_WRITES, WRITE_LIMITS, writeKind } from "../../../../src/store/postgres/write-kinds.ts";

test("every write that is sorted is an operation, and one that writes", () => {
  for (const name of SORTED_WRITES) expect([name, operationNamed(name).mode]).not.toEqual([name, "read"]);
  expect([writeKind("claims.heartbeat"), writeKind("people.insertFirst")]).toEqual(["lease", "manage"]);
});

test("what a caller waits for is given up within 5 s", () => {
  for (const kind of ["accept", "claim", "manage"] as const) {
    expect(WRITE_LIMITS[kind].statementMs).toBeLessThan(5_000);
  }
  const { waitMs, statementMs } = WRITE_LIMITS.manage;
  expect(waitMs + statementMs!).toBeLessThan(5_000);
});
