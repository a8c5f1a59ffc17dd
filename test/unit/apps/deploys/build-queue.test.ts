import { expect, test } from "vitest";
import { BuildQueue } from "../../../../src/apps/deploys/build-queue.ts";
import { verifies } from "../../../verifies.ts";

const never = new AbortController().signal;

/** Work that ends when it is told to, and the order in which such works began. */
function bench(total: number, perProject = total) {
  const queue = new BuildQueue({ total, perProject });
  const begun: string[] = [];
  const start = (name: string, number: number, signal: AbortSignal = never, projectId = "p-one") => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const done = queue.run(
      { number, projectId },
      async () => {
        begun.push(name);
        await promise;
      },
      signal,
    );
    return { end: resolve, fail: reject, done };
  };
  const settle = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));
  return { queue, begun, start, settle };
}

test("builds of one app come one after the other, in their order", async () => {
  const { begun, start, settle } = bench(2);
  const [first, second, third] = ["a", "b", "c"].map((name) => start(name, 1));
  await settle();
  expect(begun).toEqual(["a"]);
  first!.end();
  await first!.done;
  await settle();
  expect(begun).toEqual(["a", "b"]);
  second!.end();
  await second!.done;
  third!.end();
  await third!.done;
  expect(begun).toEqual(["a", "b", "c"]);
});

test("only so many run at once, and an app that waits does not hold up others", async () => {
  const { queue, begun, start, settle } = bench(2);
  const works = [start("a", 1), start("b", 1), start("c", 2), start("d", 3)];
  await settle();
  expect(begun).toEqual(["a", "c"]);
  expect(queue.isFull({ number: 4, projectId: "p-one" })).toBe(true);
  works[2]!.end();
  await works[2]!.done;
  await settle();
  expect(begun).toEqual(["a", "c", "d"]);
  for (const { end } of works) end();
  await Promise.all(works.map(({ done }) => done));
  expect(begun).toEqual(["a", "c", "d", "b"]);
  expect(queue.isFull({ number: 1, projectId: "p-one" })).toBe(false);
});

test("one that fails makes room like one that does not", async () => {
  const { begun, start, settle } = bench(1);
  const [first, second] = [start("a", 1), start("b", 2)];
  await settle();
  first.fail(new Error("broken"));
  await expect(first.done).rejects.toThrow("broken");
  second.end();
  await second.done;
  expect(begun).toEqual(["a", "b"]);
});

test("one that is given up while it waits never begins, and leaves its place", async () => {
  const { begun, start, settle } = bench(1);
  const giveUp = new AbortController();
  const [first, second, third] = [start("a", 1), start("b", 1, giveUp.signal), start("c", 1)];
  await settle();
  giveUp.abort(new Error("given up"));
  await expect(second.done).rejects.toThrow("given up");
  await expect(start("d", 1, giveUp.signal).done).rejects.toThrow("given up");
  first.end();
  third.end();
  await Promise.all([first.done, third.done]);
  expect(begun).toEqual(["a", "c"]);
});

verifies("shares.builds", "no project has all places, and who has fewest builds goes first", async () => {
  const { begun, start, settle } = bench(3, 2);
  const greedy = ["a", "b", "c", "d"].map((name, place) => start(name, place));
  await settle();
  expect(begun).toEqual(["a", "b"]);
  const others = [start("e", 10, never, "p-two"), start("f", 11, never, "p-two")];
  const third = start("g", 12, never, "p-three");
  await settle();
  expect(begun).toEqual(["a", "b", "e"]);
  greedy[0]!.end();
  await greedy[0]!.done;
  await settle();
  // The greedy one has waited longer.
  expect(begun).toEqual(["a", "b", "e", "g"]);
  for (const { end } of [...greedy, ...others, third]) end();
  await Promise.all([...greedy, ...others, third].map(({ done }) => done));
});
