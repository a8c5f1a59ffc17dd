import { expect } from "vitest";
import { Places } from "../../../src/nodes/forward/whereabouts.ts";

type NamedApp = { readonly projectId: string; readonly name: string };
import { verifies } from "../../verifies.ts";

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
    const places = new Places({ appOwners: { find } as never });
    const names = Array.from({ length: 1_000 }, (_, at) => `made-up-${at}`);
    const found = await Promise.all(
      [...names, "here", "here"].map((name) => places.find({ projectId: "p", appName: name })),
    );
    expect(found.slice(0, -2).every((place) => place === null)).toBe(true);
    expect(found.slice(-2).map((place) => place?.appNumber)).toEqual([7, 7]);
    // The same name is asked for once.
    expect(asked).toEqual([...Array.from({ length: 10 }, () => 100), 1]);
  },
);
