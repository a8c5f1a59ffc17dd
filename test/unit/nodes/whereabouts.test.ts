import { expect } from "vitest";
import { NodeWhereabouts } from "../../../src/nodes/forward/whereabouts.ts";
import { OwnersSite } from "../../support/nodes/owners-site.ts";
import { verifies } from "../../verifies.ts";

verifies("nodes.lookups", "looking up the node of an app takes nothing; settling does", async () => {
  const site = new OwnersSite(1);
  const taken: number[] = [];
  site.around = (store) => ({
    ...store,
    appOwners: {
      ...store.appOwners,
      take: async (query) => {
        taken.push(...query.appNumbers);
        return query.appNumbers.map((appNumber) => ({ appNumber, fence: 1 }));
      },
    },
  });
  const { lease, roster, owners, host } = await site.join("one");
  const app = { projectId: "p", appName: "free" };
  const place = { projectId: "p", name: "free", appNumber: 7, owner: null, fence: 0, isAlive: false };
  const whereabouts = new NodeWhereabouts({
    store: { appOwners: { find: async () => [place] } as never, runs: {} as never },
    clock: site.clock,
    owners,
    roster,
    self: { id: lease.id, url: "https://node" },
    talk: {} as never,
  });
  taken.length = 0;
  expect(await whereabouts.find(app)).toEqual({ kind: "here" });
  expect([taken, host.served.has(7)]).toEqual([[], false]);
  expect(await whereabouts.settle(app, "caller")).toEqual({ kind: "here" });
  expect([taken, host.served.has(7)]).toEqual([[7], true]);
});
