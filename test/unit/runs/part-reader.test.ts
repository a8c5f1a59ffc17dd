import { expect } from "vitest";
import { PartReader } from "../../../src/runs/part-reader.ts";
import type { Store } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

/** Lets everything that is ready go on. */
async function passed(): Promise<void> {
  for (let ticks = 0; ticks < 20; ticks++) await Promise.resolve();
}

verifies("runs.events.turns", "many readers of stored transcripts leave the database to others", async () => {
  const clock = new HandClock();
  const asked: { readonly appNumber: number; readonly answer: () => void }[] = [];
  const store = {
    transcripts: {
      next: ({ appNumber }: { readonly appNumber: number }) =>
        new Promise<null>((resolve) => asked.push({ appNumber, answer: () => resolve(null) })),
    },
  } as unknown as Store;
  const reader = new PartReader(store, clock);
  const read = (appNumber: number) => reader.next({ appNumber, id: "run" }, 0);
  const greedy = Array.from({ length: 1_000 }, () => read(1));
  await passed();
  expect(asked.map(({ appNumber }) => appNumber)).toEqual([1, 1]);
  const other = read(2);
  await passed();
  expect(asked.map(({ appNumber }) => appNumber)).toEqual([1, 1, 2]);
  for (let at = 0; at < 1_001; at++) {
    asked[at]?.answer();
    await passed();
  }
  expect(await Promise.all([...greedy, other])).toEqual(Array.from({ length: 1_001 }, () => null));
});

verifies("runs.events.turns", "a reader whose turn does not come is told so", async () => {
  const clock = new HandClock();
  const store = { transcripts: { last: () => new Promise(() => {}) } } as unknown as Store;
  const reader = new PartReader(store, clock);
  const key = { appNumber: 1, id: "run" };
  const [, , third] = [reader.last(key), reader.last(key), reader.last(key)];
  await passed();
  clock.advance(30_000);
  await expect(third).rejects.toMatchObject({ code: "overloaded", status: 503 });
});
