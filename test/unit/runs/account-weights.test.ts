import { expect, test } from "vitest";
import { AccountWeights } from "../../../src/runs/account-weights.ts";

test("weights are known by project, as they were read last", async () => {
  const stored = new Map([
    ["a", { projectId: "p-one", weight: 5 }],
    ["b", { projectId: "p-one", weight: 2 }],
    ["c", { projectId: "p-two", weight: 3 }],
  ]);
  const read = async (ids: readonly string[] | null) =>
    [...stored].filter(([id]) => ids?.includes(id) ?? true).map(([id, weight]) => ({ id, ...weight }));
  let tell: (ids: readonly string[]) => void | Promise<void> = () => {};
  let reset: () => void | Promise<void> = () => {};
  const weights = new AccountWeights({ accounts: { weights: read } } as never);
  weights.follow({ on: (_, hear) => (tell = hear), onReset: (hear) => (reset = hear) });
  await weights.start();
  expect([weights.of("p-one"), weights.of("p-two"), weights.of("")]).toEqual([{ a: 5, b: 2 }, { c: 3 }, {}]);
  stored.set("a", { projectId: "p-one", weight: 9 });
  stored.delete("c");
  await weights.learn("a");
  expect([weights.of("p-one"), weights.of("p-two")]).toEqual([{ a: 9, b: 2 }, { c: 3 }]);
  await tell([]);
  await tell(["c"]);
  expect(weights.of("p-two")).toEqual({});
  stored.clear();
  await reset();
  expect(weights.of("p-one")).toEqual({});
});
