import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { Batcher, type BatchLimits } from "../../../src/kit/batcher.ts";
import { verifies } from "../../verifies.ts";

/** Notes the batches it is given; each is done when the test says so. */
class Work {
  readonly batches: number[][] = [];
  readonly #ends: ((error?: Error) => void)[] = [];
  readonly batcher: Batcher<number, string>;

  constructor(maxItems = 100, more: Partial<BatchLimits<number>> = {}) {
    this.batcher = new Batcher(
      async (items) => {
        this.batches.push([...items]);
        const error = await new Promise<Error | undefined>((resolve) => this.#ends.push(resolve));
        if (error) throw error;
        return `of ${items.length}`;
      },
      { maxItems, ...more },
    );
  }

  /** Ends the oldest batch under way. */
  async end(error?: Error): Promise<void> {
    while (this.#ends.length === 0) await setImmediate();
    this.#ends.shift()?.(error);
  }
}

test("items of one turn of the event loop are one batch, and each gets its result", async () => {
  const work = new Work();
  const results = [1, 2, 3].map((item) => work.batcher.add(item));
  await work.end();
  expect(await Promise.all(results)).toEqual(["of 3", "of 3", "of 3"]);
  expect(work.batches).toEqual([[1, 2, 3]]);
});

test("what comes while one batch is under way is the next", async () => {
  const work = new Work();
  const first = work.batcher.add(1);
  while (work.batches.length === 0) await setImmediate();
  const later = [work.batcher.add(2), work.batcher.add(3)];
  await setImmediate();
  expect(work.batches).toEqual([[1]]);
  await work.end();
  expect(await first).toBe("of 1");
  await work.end();
  expect(await Promise.all(later)).toEqual(["of 2", "of 2"]);
  expect(work.batches).toEqual([[1], [2, 3]]);
});

test("no batch is larger than it may be", async () => {
  const work = new Work(2);
  const results = [1, 2, 3, 4, 5].map((item) => work.batcher.add(item));
  for (let i = 0; i < 3; i++) await work.end();
  await Promise.all(results);
  expect(work.batches).toEqual([[1, 2], [3, 4], [5]]);
});

verifies("accept.turns", "keys take turns, each in its own order", async () => {
  // Whose an item is says its hundreds.
  const work = new Work(4, { keyOf: (item) => Math.floor(item / 100) });
  const results = [101, 102, 103, 104, 105, 106, 201, 301, 302].map((item) => work.batcher.add(item));
  for (let i = 0; i < 3; i++) await work.end();
  await Promise.all(results);
  expect(work.batches).toEqual([[101, 201, 301, 102], [302, 103, 104, 105], [106]]);
});

verifies("accept.turns", "a batch weighs no more than it may, unless one item alone does", async () => {
  const work = new Work(4, { maxWeight: 10, weightOf: (item) => item, keyOf: (item) => item % 2 });
  const results = [4, 6, 50, 2, 3, 1].map((item) => work.batcher.add(item));
  for (let i = 0; i < 4; i++) await work.end();
  await Promise.all(results);
  expect(work.batches).toEqual([[4, 3], [6, 1], [50], [2]]);
});

test("an operation that fails fails for its own batch alone", async () => {
  const work = new Work(1);
  const results = Promise.allSettled([work.batcher.add(1), work.batcher.add(2)]);
  await work.end(new Error("no"));
  await work.end();
  expect((await results).map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
});

test("it works again after a pause", async () => {
  const work = new Work();
  const first = work.batcher.add(1);
  await work.end();
  await first;
  const again = work.batcher.add(2);
  await work.end();
  expect(await again).toBe("of 1");
});
