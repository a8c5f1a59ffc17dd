import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import { AppError } from "../../../src/model/errors.ts";
import { LEASE_MS, NodeLease, RENEW_MS } from "../../../src/nodes/lease.ts";
import { Owners } from "../../../src/nodes/owners.ts";
import type { OwnersParts } from "../../../src/nodes/owners.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

/** A node whose database can be away, and has no apps. */
async function lonelyNode() {
  const clock = new HandClock();
  const database = { takesRenewals: true, answers: true };
  const whenever = <T>(isThere: () => boolean, answer: () => T) => {
    return async (): Promise<T> => {
      if (!isThere()) throw new AppError("storage_unavailable");
      return answer();
    };
  };
  const store = {
    nodes: {
      renew: whenever(
        () => database.takesRenewals,
        () => clock.now(),
      ),
    },
    appOwners: {
      owned: whenever(
        () => database.answers,
        () => [],
      ),
      ownerless: async () => [],
    },
  };
  const parts = { store, clock, log: createLog("silent") } as unknown as OwnersParts;
  const lease = new NodeLease({ ...parts, store: store as never, id: "a", self: null });
  const owners = new Owners({ ...parts, lease, roster: { takers: [] } as never, predecessors: [] });
  await lease.begin();
  lease.start();
  await owners.start();
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += RENEW_MS) {
      clock.advance(RENEW_MS);
      await setImmediate();
    }
  };
  return { database, lease, owners, pass };
}

verifies(
  "nodes.sure",
  "a node whose lease has passed is not ready again before it has asked which apps are its own",
  async () => {
    const { database, lease, owners, pass } = await lonelyNode();
    expect(owners.isSure).toBe(true);
    await pass(2 * LEASE_MS);
    expect(owners.isSure).toBe(true);
    database.takesRenewals = false;
    await pass(LEASE_MS);
    expect([lease.isHeld, owners.isSure]).toEqual([false, false]);
    database.takesRenewals = true;
    database.answers = false;
    await pass(LEASE_MS);
    expect([lease.isHeld, owners.isSure]).toEqual([true, false]);
    database.answers = true;
    await pass(RENEW_MS);
    expect(owners.isSure).toBe(true);
  },
);
