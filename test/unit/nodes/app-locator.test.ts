import { expect } from "vitest";
import { AppLocator, placeFinder } from "../../../src/nodes/forward/app-locator.ts";
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
  const whereabouts = new AppLocator({
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

type NamedApp = { readonly projectId: string; readonly name: string };

verifies(
  "nodes.lookups",
  "however many ask for apps, one statement at a time looks for them, for many names",
  async () => {
    const asked: number[] = [];
    let running = 0;
    const find = async (apps: readonly NamedApp[]) => {
      running += 1;
      expect(running).toBe(1);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      asked.push(apps.length);
      const isThere = ({ name }: NamedApp): boolean => name === "here";
      return apps
        .filter(isThere)
        .map((app) => ({ ...app, appNumber: 7, owner: "x", fence: 1, isAlive: true }));
    };
    const findPlace = placeFinder({ appOwners: { find } as never });
    const names = Array.from({ length: 1_000 }, (_, at) => `made-up-${at}`);
    const found = await Promise.all(
      [...names, "here", "here"].map((name) => findPlace({ projectId: "p", appName: name })),
    );
    expect(found.slice(0, -2).every((place) => place === null)).toBe(true);
    expect(found.slice(-2).map((place) => place?.appNumber)).toEqual([7, 7]);
    // The same name is asked for once.
    expect(asked).toEqual([...Array.from({ length: 10 }, () => 100), 1]);
  },
);
