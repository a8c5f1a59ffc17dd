import { expect, test } from "vitest";
import { WriteBehind } from "../../../src/kit/write-behind.ts";
import { HandClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";

/** Numbers on their way to a place that may refuse them. */
class Shelf {
  readonly clock = new HandClock();
  waiting: number[] = [];
  readonly writes: number[][] = [];
  isBroken = false;
  failures = 0;
  #gate: Promise<void> = Promise.resolve();
  open: () => void = () => undefined;
  readonly behind: WriteBehind;

  constructor(delayMs = 100) {
    this.behind = new WriteBehind({
      clock: this.clock,
      delayMs,
      retryMs: 1_000,
      hasWaiting: () => this.waiting.length > 0,
      write: async () => {
        const batch = [...this.waiting];
        await this.#gate;
        if (this.isBroken) throw new Error("no room");
        this.writes.push(batch);
        this.waiting.splice(0, batch.length);
      },
      onFailure: () => (this.failures += 1),
    });
  }

  close(): void {
    this.#gate = new Promise((resolve) => (this.open = resolve));
  }

  add(...numbers: number[]): void {
    this.waiting.push(...numbers);
    this.behind.note();
  }
}

test("what came within the delay is written together", async () => {
  const shelf = new Shelf();
  shelf.add(1);
  shelf.clock.advance(99);
  shelf.add(2);
  expect(shelf.writes).toEqual([]);
  shelf.clock.advance(1);
  await until("they are written", () => shelf.writes.length === 1);
  expect(shelf.writes).toEqual([[1, 2]]);
  expect(shelf.clock.pending).toBe(0);
});

test("without a delay what comes in one tick is written at once, together", async () => {
  const shelf = new Shelf(0);
  shelf.add(1);
  shelf.add(2);
  await shelf.behind.flush();
  expect(shelf.writes[0]).toEqual([1, 2]);
});

test("one write at a time, and what comes meanwhile is written after it", async () => {
  const shelf = new Shelf();
  shelf.close();
  shelf.add(1);
  shelf.behind.begin();
  expect(shelf.behind.isFree).toBe(false);
  await Promise.resolve();
  shelf.add(2);
  const flushed = shelf.behind.flush();
  shelf.open();
  await flushed;
  expect(shelf.writes).toEqual([[1], [2]]);
  expect(shelf.behind.isFree).toBe(true);
});

test("after a failure it is tried a while later, however much comes", async () => {
  const shelf = new Shelf();
  shelf.isBroken = true;
  shelf.add(1);
  shelf.clock.advance(100);
  await until("it failed", () => shelf.failures === 1);
  shelf.isBroken = false;
  shelf.add(2);
  shelf.clock.advance(999);
  await new Promise((resolve) => setImmediate(resolve));
  expect(shelf.writes).toEqual([]);
  shelf.clock.advance(1);
  await until("they are written", () => shelf.writes.length === 1);
  expect(shelf.writes).toEqual([[1, 2]]);
});

test("settled, nothing waits: it is written, or given up when patience ends", async () => {
  const shelf = new Shelf();
  shelf.add(1);
  await shelf.behind.settle(0, () => expect.unreachable());
  expect(shelf.writes).toEqual([[1]]);
  shelf.isBroken = true;
  shelf.add(2);
  let isGivenUp = false;
  const settled = shelf.behind.settle(150, () => {
    isGivenUp = true;
    shelf.waiting = [];
  });
  await until("it waits between two tries", () => shelf.failures === 1 && shelf.clock.pending === 2);
  shelf.clock.advance(100);
  await until("it tried again", () => shelf.failures === 2 && shelf.clock.pending === 2);
  expect(isGivenUp).toBe(false);
  shelf.clock.advance(100);
  await settled;
  expect([isGivenUp, shelf.failures, shelf.clock.pending]).toEqual([true, 3, 0]);
});
