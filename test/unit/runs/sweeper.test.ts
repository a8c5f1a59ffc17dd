import { expect, test } from "vitest";
import { LeftBehind } from "../../../src/runs/sweeper.ts";
import type { Store } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";

/** A store with so many builds, and what happens while it is asked for unfinished runs. */
function storeWith(state: { builds: number; onAsked?: () => void; asked: number }): Store {
  const parts = {
    logs: { trim: () => Promise.resolve({ lineCount: 0, freedBytes: 0 }) },
    retention: { expire: () => Promise.resolve(0), leftBehind: () => Promise.resolve([]) },
    builds: { prune: () => Promise.resolve(state.builds).finally(() => (state.builds = 0)) },
    versions: {
      inUse: () => {
        state.asked += 1;
        state.onAsked?.();
        return Promise.resolve([]);
      },
    },
  };
  return parts as unknown as Store;
}

const once = async (remove: (limit: number) => Promise<number>): Promise<void> => void (await remove(200));
const directly = async (work: () => Promise<void>): Promise<void> => await work();

test("an app whose end comes while it is looked at is looked at again", async () => {
  const state: Parameters<typeof storeWith>[0] = { builds: 0, asked: 0 };
  const left = new LeftBehind(storeWith(state), new HandClock());
  left.add(7);
  await left.sweep(once, directly);
  // The last of its versions goes at this moment, and its builds can.
  state.onAsked = () => {
    state.builds = 3;
    left.add(7);
    delete state.onAsked;
  };
  await left.sweep(once, directly);
  await left.sweep(once, directly);
  expect(state.builds).toBe(0);
});

test("an app of which nothing is left is looked at twice more, and then no longer", async () => {
  const state: Parameters<typeof storeWith>[0] = { builds: 5, asked: 0 };
  const left = new LeftBehind(storeWith(state), new HandClock());
  left.add(7);
  for (let round = 0; round < 6; round++) await left.sweep(once, directly);
  expect(state).toEqual({ builds: 0, asked: 2 });
});

test("versions of an app are forgotten an hour after another service deleted it, not while runs name them", async () => {
  const clock = new HandClock();
  const deletedAt = clock.now();
  const removed: string[] = [];
  const state = { builds: 0, asked: 0 };
  let inUse = ["v-one"];
  const store = storeWith(state);
  const retention = {
    ...store.retention,
    leftBehind: async ({ before }: { before: number }) =>
      deletedAt < before && removed.length === 0 ? [7] : [],
  };
  const versions = {
    inUse: async () => inUse,
    list: async () => [{ id: "v-one" }],
    remove: async (ids: readonly string[]) => void removed.push(...ids),
  };
  const left = new LeftBehind({ ...store, retention, versions } as unknown as Store, clock);
  await left.sweep(once, directly);
  clock.advance(3_600_000);
  await left.sweep(once, directly);
  clock.advance(3_600_000);
  await left.sweep(once, directly);
  expect(removed).toEqual([]);
  inUse = [];
  clock.advance(3_600_000);
  await left.sweep(once, directly);
  expect(removed).toEqual(["v-one"]);
});
