import { describe, expect, test } from "vitest";
import type { OpenVersion } from "../../../../src/apps/versions/open-version.ts";
import { Traffic } from "../../../../src/apps/versions/traffic.ts";
import { HandClock } from "../../../support/clocks.ts";

const clock = new HandClock();

/** A version that only notes when it is retired. */
class HandVersion {
  readonly live: { readonly id: string };
  readonly version: { readonly id: string };
  readonly pool = { readyCount: 1, counts: {} };
  isRetired = false;

  constructor(id: string) {
    this.live = { id };
    this.version = { id };
  }

  retire(): void {
    this.isRetired = true;
  }
}

const version = (id: string) => {
  const hand = new HandVersion(id);
  return { hand, open: hand as unknown as OpenVersion };
};

const picks = (traffic: Traffic, count: number): string =>
  Array.from({ length: count }, () => (traffic.pick() as unknown as { id: string }).id).join("");

describe("calls go", () => {
  test("to the current version, and at a switch without a rollout to the next", () => {
    const [a, b] = [version("a"), version("b")];
    const traffic = new Traffic(a.open, clock);
    expect(picks(traffic, 3)).toBe("aaa");
    traffic.moveTo(b.open);
    expect([picks(traffic, 3), a.hand.isRetired]).toEqual(["bbb", true]);
  });

  test("in a rollout by share, evenly, a fifth more at each step", () => {
    const [a, b] = [version("a"), version("b")];
    const traffic = new Traffic(a.open, clock);
    traffic.moveTo(b.open, 4_000);
    const seen: string[] = [];
    for (let step = 0; step < 5; step++) {
      seen.push(picks(traffic, 5));
      expect(a.hand.isRetired).toBe(step === 4);
      clock.advance(1_000);
    }
    expect(seen).toEqual(["aaaab", "aabab", "ababb", "abbbb", "bbbbb"]);
  });

  test("never to a version that was replaced during its rollout", () => {
    const [a, b, c] = [version("a"), version("b"), version("c")];
    const traffic = new Traffic(a.open, clock);
    traffic.moveTo(b.open, 60_000);
    traffic.moveTo(c.open, 60_000);
    traffic.stop();
    expect([a.hand.isRetired, b.hand.isRetired]).toEqual([true, false]);
    expect(new Set(picks(traffic, 10))).toEqual(new Set(["b", "c"]));
  });
});

test("the way back to a version that still gets calls leaves it in service", () => {
  const [a, b] = [version("a"), version("b")];
  const traffic = new Traffic(a.open, clock);
  traffic.moveTo(b.open, 60_000);
  traffic.moveTo(a.open);
  expect([a.hand.isRetired, b.hand.isRetired]).toEqual([false, true]);
  expect(traffic.all()).toEqual([a.open, b.open]);
});

test("an open version is found by its id, the latest of several", () => {
  const [a, b, c] = [version("a"), version("b"), version("a")];
  const traffic = new Traffic(a.open, clock);
  traffic.replaceCurrent(c.open);
  traffic.moveTo(b.open);
  expect([traffic.find("a"), traffic.find("b"), traffic.find("z")]).toEqual([c.open, b.open, undefined]);
  traffic.forget(c.open);
  expect(traffic.find("a")).toBe(a.open);
});
