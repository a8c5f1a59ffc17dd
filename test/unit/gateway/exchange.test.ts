import { expect, test } from "vitest";
import { OpenExchanges } from "../../../src/gateway/exchange.ts";
import { HandClock } from "../../support/clocks.ts";

function exchange(complete = true) {
  return { request: { complete }, index: 0, isAwaited: false };
}

test("those without an answer are counted, whichever of them get theirs first", () => {
  const open = new OpenExchanges();
  const all = Array.from({ length: 5 }, () => exchange());
  for (const each of all) open.add(each);
  for (const [left, index] of [
    [4, 1],
    [3, 4],
    [2, 0],
    [1, 3],
    [0, 2],
  ] as const) {
    open.remove(all[index]!);
    expect(open.waiting).toBe(left);
  }
});

test("who has not sent all of a request is not waited for", async () => {
  const open = new OpenExchanges();
  open.add(exchange(false));
  expect(await open.settle(1_000, new HandClock())).toBe(0);
});

test("the last answers are waited for, and what never comes is told", async () => {
  const clock = new HandClock();
  const open = new OpenExchanges();
  const [late, never] = [exchange(), exchange()];
  open.add(late);
  const settled = open.settle(1_000, clock);
  open.remove(late);
  expect(await settled).toBe(0);
  open.add(never);
  const unsettled = open.settle(1_000, clock);
  clock.advance(1_000);
  expect(await unsettled).toBe(1);
});

test("one that arrives whole while others are waited for is waited for too", async () => {
  const open = new OpenExchanges();
  const request = { complete: false };
  const [first, slow] = [exchange(), { request, index: 0, isAwaited: false }];
  open.add(first);
  open.add(slow);
  const clock = new HandClock();
  const settled = open.settle(1_000, clock);
  request.complete = true;
  open.remove(first);
  clock.advance(1_000);
  expect(await settled).toBe(1);
});

test("answers that come one by one are not each paid for with a look at all that are open", async () => {
  let looks = 0;
  const open = new OpenExchanges();
  const all = Array.from({ length: 500 }, () => ({
    request: {
      get complete() {
        looks += 1;
        return true;
      },
    },
    index: 0,
    isAwaited: false,
  }));
  for (const each of all) open.add(each);
  const settled = open.settle(1_000, new HandClock());
  for (const each of all) {
    open.remove(each);
    await Promise.resolve();
    await Promise.resolve();
  }
  expect(await settled).toBe(0);
  expect(looks).toBeLessThanOrEqual(2 * all.length);
});
