import { expect, test } from "vitest";
import { WaitingLines } from "../../../../src/runs/batches/waiting-lines.ts";
import type { Store } from "../../../../src/store/store.ts";

const MIB = 1024 * 1024;

/** Batches of one block each, and the numbers of those that were read, in order. */
function storedBatches(lines: readonly string[]) {
  const reads: number[] = [];
  const bytes = Buffer.from(lines.join("\n"));
  const block = async ({ number }: { readonly number: number }) => {
    reads.push(number);
    return { first: 0, lineCount: lines.length, bytes };
  };
  // oxlint-disable-next-line no-unsafe-type-assertion -- no other of them is called
  return { reads, waiting: new WaitingLines({ lineBatches: { block } } as unknown as Store) };
}

test("a block is read once for all of its lines", async () => {
  const { reads, waiting } = storedBatches(["a", "b", "c"]);
  expect((await waiting.next({ number: 1 }, 0, 2)).map(String)).toEqual(["a", "b"]);
  expect((await waiting.next({ number: 1 }, 2, 2)).map(String)).toEqual(["c"]);
  expect(await waiting.next({ number: 1 }, 3, 2)).toEqual([]);
  expect(reads).toEqual([1, 1]);
});

test("blocks of many open batches take bounded memory: those that have waited longest are read again", async () => {
  const { reads, waiting } = storedBatches(["x".repeat(20 * MIB), "y"]);
  for (const number of [1, 2, 3, 1, 4]) await waiting.next({ number }, 0, 1);
  // The fourth has taken the place of the second.
  for (const number of [1, 3, 4, 2]) expect(await waiting.next({ number }, 1, 1)).toEqual([Buffer.from("y")]);
  expect(reads).toEqual([1, 2, 3, 4, 2]);
  waiting.keepOnly([{ number: 2 }]);
  for (const number of [2, 4]) await waiting.next({ number }, 0, 1);
  expect(reads).toEqual([1, 2, 3, 4, 2, 4]);
});

test("a block that is larger than all may be is used nevertheless", async () => {
  const { reads, waiting } = storedBatches(["x".repeat(70 * MIB), "y"]);
  for (const number of [1, 1, 2, 1]) await waiting.next({ number }, 1, 1);
  expect(reads).toEqual([1, 2, 1]);
});
