import { expect, test } from "vitest";
import { BATCH_SIZE_BOUNDS, BatchTally } from "../../../src/replicas/batch-tally.ts";
import { verifies } from "../../verifies.ts";

verifies(
  "operations.metrics.batches",
  "batches are counted by function, by why they left and by their size",
  () => {
    const tally = new BatchTally();
    for (const size of [1, 2, 3, 4, 5, 1000]) tally.add("embed", size, size === 1000 ? "full" : "idle");
    tally.add("rank", 1, "window");
    const embed = tally.byFunction.get("embed")!;
    expect(Object.fromEntries(BATCH_SIZE_BOUNDS.map((bound, i) => [bound, embed.sizes[i]]))).toMatchObject({
      1: 1,
      2: 1,
      4: 2,
      8: 1,
      16: 0,
      512: 0,
      1024: 1,
    });
    expect(embed).toMatchObject({ batches: 6, calls: 1015 });
    expect(embed.byReason).toEqual({ idle: 5, full: 1, window: 0, deadline: 0, drain: 0 });
    expect(tally.byFunction.get("rank")?.byReason.window).toBe(1);
  },
);

test("every size falls into the first class that holds it", () => {
  for (let size = 1; size <= 1024; size += 1) {
    const tally = new BatchTally();
    tally.add("embed", size, "full");
    const index = tally.byFunction.get("embed")!.sizes.indexOf(1);
    expect([size, index]).toEqual([size, BATCH_SIZE_BOUNDS.findIndex((bound) => size <= bound)]);
  }
});

test("of functions of many versions, the oldest are forgotten", () => {
  const tally = new BatchTally();
  for (let i = 0; i < 201; i += 1) tally.add(`f${i}`, 1, "idle");
  expect(tally.byFunction.size).toBe(200);
  expect([tally.byFunction.has("f0"), tally.byFunction.has("f200")]).toEqual([false, true]);
});
