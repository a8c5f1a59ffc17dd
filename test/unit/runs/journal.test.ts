import { expect, test } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import type { Run } from "../../../src/model/run.ts";
import { Journal } from "../../../src/runs/journal.ts";
import type { Store } from "../../../src/store/store.ts";
import { sampleRun } from "../../support/sample-run.ts";

/** Takes batches, or refuses them while told to: a disk that fails cannot be had on demand. */
class Shelf {
  readonly batches: string[][] = [];
  isBroken = false;
  readonly journal = new Journal(
    {
      runs: {
        insertFinished: (runs: readonly Run[]) => {
          if (this.isBroken) return Promise.reject(new Error("the disk is full"));
          this.batches.push(runs.map(({ id }) => id));
          return Promise.resolve();
        },
      },
    } as unknown as Store,
    createLog("silent"),
  );

  add(count: number): string[] {
    const runs = Array.from({ length: count }, () => sampleRun());
    for (const run of runs) this.journal.add(run);
    return runs.map(({ id }) => id);
  }
}

test("records added together are written together, in their order", async () => {
  const shelf = new Shelf();
  const ids = shelf.add(150);
  expect(shelf.batches).toEqual([]);
  await shelf.journal.settle();
  expect(shelf.batches).toEqual([ids]);
});

test("many are not left to wait, and a large pile is written in bounded batches", async () => {
  const shelf = new Shelf();
  const ids = shelf.add(4_500);
  await shelf.journal.settle();
  expect(shelf.batches.map((batch) => batch.length)).toEqual([200, 2_000, 2_000, 300]);
  expect(shelf.batches.flat()).toEqual(ids);
});

test("what could not be written is written later, once and in order", async () => {
  const shelf = new Shelf();
  shelf.isBroken = true;
  const first = shelf.add(3);
  const settled = shelf.journal.settle();
  const second = shelf.add(2);
  setTimeout(() => {
    shelf.isBroken = false;
  }, 50);
  await settled;
  expect(shelf.batches.flat()).toEqual([...first, ...second]);
});

test("a stop does not wait for ever for a database that takes nothing", async () => {
  const shelf = new Shelf();
  shelf.isBroken = true;
  shelf.add(3);
  await shelf.journal.settle(100);
  shelf.isBroken = false;
  await shelf.journal.settle();
  expect(shelf.batches).toEqual([]);
});
