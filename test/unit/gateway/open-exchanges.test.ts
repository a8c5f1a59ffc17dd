import { expect, test } from "vitest";
import { OpenExchanges } from "../../../src/gateway/open-exchanges.ts";
import { HandClock } from "../../support/clocks.ts";

function exchange(complete = true) {
  return { request: { complete }, place: 0 };
}

test("those without an answer are counted, whichever of them get theirs first", () => {
  const open = new OpenExchanges();
  const all = Array.from({ length: 5 }, () => exchange());
  for (const each of all) open.add(each);
  for (const [left, place] of [
    [4, 1],
    [3, 4],
    [2, 0],
    [1, 3],
    [0, 2],
  ] as const) {
    open.remove(all[place]!);
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
