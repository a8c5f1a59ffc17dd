import { beforeEach, expect, test } from "vitest";
import { Watch } from "../../../../src/replicas/slots/watch.ts";
import { HandClock } from "../../../support/clocks.ts";

let clock = new HandClock();
beforeEach(() => {
  clock = new HandClock();
});

test("it looks every 10 ms while there is something to look after", () => {
  let looks = 0;
  const watch = new Watch(clock, () => {
    looks += 1;
    return true;
  });
  watch.wake();
  clock.advance(5_000);
  expect(looks).toBe(500);
  watch.stop();
});

test("it rests a second after the last thing, and one timer serves however many wake it", () => {
  let looks = 0;
  const watch = new Watch(clock, () => {
    looks += 1;
    return false;
  });
  for (let arrival = 0; arrival < 50; arrival++) watch.wake();
  expect(clock.pending).toBe(1);
  clock.advance(10_000);
  expect(looks).toBe(100);
  expect(clock.pending).toBe(0);
});

test("it looks again when it is woken after a rest", () => {
  let isBusy = false;
  let looks = 0;
  const watch = new Watch(clock, () => {
    looks += 1;
    return isBusy;
  });
  watch.wake();
  clock.advance(2_000);
  looks = 0;
  isBusy = true;
  watch.wake();
  clock.advance(1_500);
  expect(looks).toBe(150);
  watch.stop();
});

test("it counts what arrives", () => {
  const watch = new Watch(clock, () => false);
  for (let arrival = 0; arrival < 110; arrival++) watch.wake();
  clock.advance(10_000);
  watch.wake();
  expect(watch.arrivals).toBe(111);
  watch.stop();
});
