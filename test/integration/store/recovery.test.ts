import { describe, expect } from "vitest";
import { openStore } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { samplePayload, sampleRun } from "../../support/sample-run.ts";
import { signOfLife } from "../../support/leases.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

describe.each(DATABASE_KINDS)("recovery on %s", (kind) => {
  verifies("lease.late-start", "who names the dead takes over from them alone", async () => {
    const store = await openStore(await databases.fresh(kind));
    const runs = ["named", "passed"].map((owner) => ({ run: sampleRun({ state: "running" }), owner }));
    for (const { run, owner } of runs) {
      await signOfLife(store, owner, -1);
      await store.runs.accept([{ run, payload: samplePayload(), owner }]);
    }
    const states = async () =>
      await Promise.all(runs.map(async ({ run }) => (await store.runs.find(run))?.state));
    expect(await store.claims.recover({ owner: "new", isAlone: false, dead: [] })).toBe(0);
    expect(await store.claims.recover({ owner: "new", isAlone: false, dead: ["named"] })).toBe(1);
    expect(await states()).toEqual(["queued", "running"]);
    expect(await store.claims.recover({ owner: "new", isAlone: false })).toBe(1);
    expect(await states()).toEqual(["queued", "queued"]);
    await store.close();
  });

  verifies(
    "lease.late-start",
    "a lease that has expired because somebody set the database's clock is none of a dead service",
    async () => {
      const store = await openStore(await databases.fresh(kind));
      const run = sampleRun({ state: "running" });
      const now = await signOfLife(store, "living", -1);
      await store.runs.accept([{ run, payload: samplePayload(), owner: "living" }]);
      const recover = async (reckonedNow: number) =>
        await store.claims.recover({ owner: "new", isAlone: false, reckonedNow });
      expect(await recover(now - 3_600_000)).toBe(0);
      expect(await store.nodes.list()).toEqual({ living: [], deadCount: 1 });
      expect(await recover(now + 1)).toBe(1);
      expect(await store.nodes.list()).toEqual({ living: [], deadCount: 0 });
      await store.close();
    },
  );
});
