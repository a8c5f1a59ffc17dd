import { expect, test } from "vitest";
import type { QueueState } from "../../../src/model/queue-limits.ts";
import { QueueStates } from "../../../src/runs/queue-states.ts";

/** What the database has, and what it was told. */
function site() {
  const stored = new Map<number, QueueState>([[1, "paused"]]);
  const told: string[] = [];
  let tell: (subjects: readonly string[]) => void | Promise<void> = () => {};
  let reset: () => void | Promise<void> = () => {};
  const closed = async (of: readonly number[] | null) =>
    [...stored].filter(([app]) => of?.includes(app) ?? true);
  const states = new QueueStates({
    store: { queueStates: { closed } } as never,
    onPaused: (app) => void told.push(`pause ${app}`),
    onResumed: (app) => void told.push(`resume ${app}`),
  });
  states.follow({ on: (_, hear) => (tell = hear), onReset: (hear) => (reset = hear) });
  return { stored, told, states, tell: (app: number) => tell([String(app)]), reset: () => reset() };
}

test("what was paused before the start is paused, and nothing has to stop", async () => {
  const { states, told } = site();
  await states.start();
  expect([states.isPaused(1), states.isPaused(2), states.isDraining(1), told]).toEqual([
    true,
    false,
    false,
    [],
  ]);
});

test("each change is told once, whoever makes it", async () => {
  const { states, stored, told, tell } = site();
  await states.start();
  states.apply(2, "paused");
  stored.set(2, "paused");
  await tell(2);
  expect(told).toEqual(["pause 2"]);
  stored.set(2, "draining");
  await tell(2);
  expect([told.at(-1), states.isDraining(2)]).toEqual(["resume 2", true]);
  stored.delete(1);
  await tell(1);
  expect([told, states.isPaused(1)]).toEqual([["pause 2", "resume 2", "resume 1"], false]);
});

test("when changes may have been missed, all are read again", async () => {
  const { states, stored, told, reset } = site();
  await states.start();
  stored.delete(1);
  stored.set(3, "paused");
  await reset();
  expect([states.isPaused(1), states.isPaused(3)]).toEqual([false, true]);
  expect(told.toSorted()).toEqual(["pause 3", "resume 1"]);
});
