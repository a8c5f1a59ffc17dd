import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import { AppError } from "../../../src/model/errors.ts";
import { LEASE_MS, NodeLease, RENEW_MS } from "../../../src/nodes/lease.ts";
import type { Store } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

/** A lease whose database can be away, and have its clock set. */
function leaseBy(clock: HandClock) {
  const database = { isAway: false, aheadMs: 0, signs: 0 };
  const nodes = {
    renew: async () => {
      database.signs += 1;
      if (database.isAway) throw new AppError("storage_unavailable");
      return clock.now() + database.aheadMs;
    },
    leave: async () => {},
  } as unknown as Store["nodes"];
  const lease = new NodeLease({ store: { nodes }, clock, log: createLog("silent"), id: "a", self: null });
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += RENEW_MS) {
      clock.advance(RENEW_MS);
      await setImmediate();
    }
  };
  return { lease, database, pass };
}

verifies(
  "lease.late-start",
  "a service that could not renew its own lease for a while gives the others time to renew theirs",
  async () => {
    const { lease, database, pass } = leaseBy(new HandClock());
    await lease.begin();
    lease.start();
    await pass(LEASE_MS);
    expect([lease.isHeld, lease.mayJudge]).toEqual([true, true]);
    database.isAway = true;
    await pass(LEASE_MS);
    expect([lease.isHeld, lease.mayJudge]).toEqual([false, false]);
    database.isAway = false;
    await pass(LEASE_MS);
    expect([lease.isHeld, lease.mayJudge]).toEqual([true, false]);
    await pass(RENEW_MS);
    expect(lease.mayJudge).toBe(true);
  },
);

verifies(
  "lease.late-start",
  "a service that starts gives the others time to renew their leases",
  async () => {
    const { lease, pass } = leaseBy(new HandClock());
    await lease.begin();
    lease.start();
    await pass(LEASE_MS - RENEW_MS);
    expect([lease.isHeld, lease.mayJudge]).toEqual([true, false]);
    await pass(RENEW_MS);
    expect(lease.mayJudge).toBe(true);
  },
);

verifies(
  "lease.late-start",
  "when somebody sets the database's clock, the others get time to renew their leases",
  async () => {
    const { lease, database, pass } = leaseBy(new HandClock());
    await lease.begin();
    lease.start();
    await pass(LEASE_MS);
    const before = lease.reckonedNow;
    database.aheadMs = 3_600_000;
    // It learns that only when it renews its own lease.
    expect([lease.mayJudge, lease.reckonedNow]).toEqual([true, before]);
    await pass(RENEW_MS);
    expect([lease.isHeld, lease.mayJudge]).toEqual([true, false]);
    expect(lease.reckonedNow).toBe(before + RENEW_MS + database.aheadMs);
    await pass(LEASE_MS);
    expect(lease.mayJudge).toBe(true);
  },
);

verifies("lease.over", "a node that has left gives no more signs of life", async () => {
  const clock = new HandClock();
  const { lease, database, pass } = leaseBy(clock);
  await lease.begin();
  lease.start();
  await lease.leave();
  await pass(LEASE_MS);
  expect([database.signs, lease.isHeld]).toEqual([1, false]);
});
