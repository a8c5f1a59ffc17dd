import { expect, test } from "vitest";
import { WhileUsed } from "../../../src/kit/while-used.ts";
import { HeldClock } from "../../support/held-clock.ts";

const IDLE_MS = 1_000;

function lent() {
  const clock = new HeldClock();
  clock.hold();
  const events: string[] = [];
  let opened = 0;
  const thread = new WhileUsed({
    clock,
    idleMs: IDLE_MS,
    open: () => {
      opened += 1;
      events.push(`open ${opened}`);
      return { number: opened };
    },
    close: async ({ number }) => void events.push(`close ${number}`),
  });
  const use = (): Promise<number> => thread.use(async ({ number }) => number);
  return { clock, events, thread, use };
}

test("it opens with the first use, and closes once nobody has used it for a while", async () => {
  const { clock, events, use } = lent();
  expect(events).toEqual([]);
  expect(await use()).toBe(1);
  clock.advance(IDLE_MS - 1);
  expect(await use()).toBe(1);
  clock.advance(IDLE_MS - 1);
  expect(events).toEqual(["open 1"]);
  clock.advance(1);
  expect(events).toEqual(["open 1", "close 1"]);
  expect(await use()).toBe(2);
});

test("it stays as long as somebody uses it", async () => {
  const { clock, events, thread, use } = lent();
  const { promise, resolve } = Promise.withResolvers<void>();
  const long = thread.use(() => promise);
  await use();
  clock.advance(10 * IDLE_MS);
  expect(events).toEqual(["open 1"]);
  resolve();
  await long;
  clock.advance(IDLE_MS);
  expect(events).toEqual(["open 1", "close 1"]);
});

test("one that broke is replaced, and one that work failed in is not", async () => {
  const { thread, use } = lent();
  await expect(
    thread.use(async (broken) => {
      thread.forget(broken);
      throw new Error("broken");
    }),
  ).rejects.toThrow("broken");
  await expect(thread.use(async () => await Promise.reject(new Error("bad input")))).rejects.toThrow(
    "bad input",
  );
  expect(await use()).toBe(2);
});

test("closing waits for what is being closed for want of use", async () => {
  const clock = new HeldClock();
  clock.hold();
  const closing = Promise.withResolvers<void>();
  const thread = new WhileUsed({ clock, idleMs: IDLE_MS, open: () => ({}), close: () => closing.promise });
  await thread.use(async () => {});
  clock.advance(IDLE_MS);
  let isClosed = false;
  const closed = thread.close().then(() => (isClosed = true));
  await Promise.resolve();
  expect(isClosed).toBe(false);
  closing.resolve();
  await closed;
});
