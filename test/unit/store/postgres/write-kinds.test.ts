import { Client } from "pg";
import { expect, test } from "vitest";
import { HEARTBEAT_MS, LEASE_MS } from "../../../../src/runs/heartbeat.ts";
import { createPool } from "../../../../src/store/postgres/connection.ts";
import { operationNamed } from "../../../../src/store/operations.ts";
import { SORTED_WRITES, WRITE_LIMITS, writeKind } from "../../../../src/store/postgres/write-kinds.ts";
import { verifies } from "../../../verifies.ts";

test("every write that is sorted is an operation, and one that writes", () => {
  for (const name of SORTED_WRITES) expect([name, operationNamed(name).mode]).not.toEqual([name, "read"]);
  expect([writeKind("claims.heartbeat"), writeKind("people.insertFirst")]).toEqual(["lease", "manage"]);
});

test("what a caller waits for is given up within 5 s", () => {
  for (const kind of ["accept", "claim", "manage"] as const) {
    expect(WRITE_LIMITS[kind].statementMs).toBeLessThan(5_000);
    expect(WRITE_LIMITS[kind].answerMs).toBeLessThan(5_000);
  }
  const { waitMs, statementMs } = WRITE_LIMITS.manage;
  expect(waitMs + statementMs!).toBeLessThan(5_000);
});

verifies(
  "lease.dead-connection",
  "a lease outlives any one connection that dies without a word",
  async () => {
    // The sign of life itself is given up before the next one is due, which then has the one connection.
    expect(WRITE_LIMITS.lease.answerMs).toBeLessThan(HEARTBEAT_MS);
    for (const limits of Object.values(WRITE_LIMITS)) {
      const pool = createPool("postgres://localhost/none", limits, Client);
      // The server lets go of the lease's row, which a claim that was not committed has locked, in time for two more.
      const idleMs = Number(pool.options.idle_in_transaction_session_timeout);
      expect(idleMs + 2 * HEARTBEAT_MS).toBeLessThanOrEqual(LEASE_MS);
      await pool.end();
    }
  },
);
