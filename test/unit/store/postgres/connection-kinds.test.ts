import { expect, test } from "vitest";
import { RENEW_MS } from "../../../../src/nodes/lease.ts";
import { OPERATION_NAMES, operationNamed } from "../../../../src/store/operations.ts";
import { IDLE_MS } from "../../../../src/store/postgres/connections.ts";
import {
  READ_LIMITS,
  SORTED_WRITES,
  WRITE_LIMITS,
  readKind,
  writeKind,
} from "../../../../src/store/postgres/connection-kinds.ts";
import { verifies } from "../../../verifies.ts";

test("reads of runs, of lines, of the service's own, and all the rest", () => {
  const names = ["runs.find", "transcripts.next", "versions.inUse", "buildLines.list", "versions.find"];
  expect(names.map(readKind)).toEqual(["runs", "runs", "own", "lines", "rest"]);
  expect(["tokens.findByJtiHash", "meta.get"].map(readKind)).toEqual(["rest", "rest"]);
  expect(["appOwners.find", "appOwners.owned"].map(readKind)).toEqual(["places", "own"]);
  // The record of a run that was tried again is for callers, and must not hold up the dispatcher.
  expect(["claims.attempts", "claims.position", "claims.nextDueAt"].map(readKind)).toEqual([
    "runs",
    "runs",
    "own",
  ]);
});

verifies(
  "reads.in-time",
  "a read that somebody waits for is given up within 5 s, with the time to get a connection",
  () => {
    const { runs, lines, places, rest } = READ_LIMITS;
    for (const { waitMs, statementMs, answerMs } of [runs, lines, places, rest]) {
      expect(waitMs + statementMs).toBeLessThan(5_000);
      expect(answerMs).toBeLessThan(5_000);
    }
  },
);

test("every write that is sorted is an operation, and one that writes", () => {
  for (const name of SORTED_WRITES) expect([name, operationNamed(name).mode]).not.toEqual([name, "read"]);
  expect([writeKind("nodes.renew"), writeKind("people.insertFirst")]).toEqual(["lease", "manage"]);
});

test("only what people, deploys and nodes change is left to `manage`: a new group of writes has to be sorted", () => {
  const isManaged = (name: string): boolean =>
    operationNamed(name).mode !== "read" && writeKind(name) === "manage";
  const groups = new Set(OPERATION_NAMES.filter(isManaged).map((name) => name.slice(0, name.indexOf("."))));
  expect([...groups].toSorted().join(" ")).toBe(
    "accounts apps auditEntries builds bulkJobs deliveries deviceCodes firings invitations lineBatches memberships meta " +
      "nodes people projects queueStates runBlobs schedules seats secrets sessions signingKeys space versionBlobs versions " +
      "webhookSecrets",
  );
});

test("what a caller waits for is given up within 5 s", () => {
  for (const kind of ["accept", "keyed", "claim", "manage", "upload"] as const) {
    expect(WRITE_LIMITS[kind].statementMs).toBeLessThan(5_000);
    expect(WRITE_LIMITS[kind].answerMs).toBeLessThan(5_000);
  }
  const { waitMs, statementMs } = WRITE_LIMITS.manage;
  expect(waitMs + statementMs).toBeLessThan(5_000);
});

verifies(
  "lease.standstill",
  "what a service holds that stands still is free before callers are refused",
  () => {
    // It is freed by then, and a statement that has waited for it has a second left.
    for (const kind of ["accept", "keyed", "claim"] as const)
      expect(WRITE_LIMITS[kind].statementMs - IDLE_MS).toBeGreaterThanOrEqual(1_000);
  },
);

verifies("lease.dead-connection", "a lease outlives any one connection that dies without a word", () => {
  // The sign of life itself is given up before the next one is due, which then has the one connection.
  expect(WRITE_LIMITS.lease.answerMs).toBeLessThan(RENEW_MS);
  // No other write touches its row, so none that is not committed can keep it waiting.
  expect(SORTED_WRITES.filter((name) => writeKind(name) === "lease")).toEqual(["nodes.renew"]);
});
