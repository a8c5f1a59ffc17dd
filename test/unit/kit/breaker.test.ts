import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { Breaker, PROBE_EVERY_MS, TICK_MS } from "../../../src/kit/breaker.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

/** A breaker before something that answers when the test says so. */
class Guarded {
  readonly clock = new HandClock();
  readonly changes: boolean[] = [];
  readonly probes: PromiseWithResolvers<void>[] = [];
  readonly breaker = new Breaker({
    clock: this.clock,
    probe: () => {
      const probe = Promise.withResolvers<void>();
      this.probes.push(probe);
      return probe.promise;
    },
    isSilence: (error) => error instanceof Error && error.message === "timed out",
    refusal: (wasAsked) => new Error(wasAsked ? "given up" : "refused"),
    onChange: (isOpen) => this.changes.push(isOpen),
  });

  /** A call, and what became of it so far. */
  call(): { end: PromiseWithResolvers<string>; state: string } {
    const end = Promise.withResolvers<string>();
    const call = { end, state: "waits" };
    this.breaker
      .run(() => end.promise)
      .then(
        (result) => (call.state = result),
        (error: Error) => (call.state = error.message),
      );
    return call;
  }

  /** Lets ticks pass, the event loop turning between them. */
  async ticks(count: number): Promise<void> {
    for (let tick = 0; tick < count; tick++) {
      this.clock.advance(TICK_MS);
      await setImmediate();
      await setImmediate();
    }
  }
}

verifies(
  "silence.breaker",
  "calls that nobody answers are given up within 5 s, new ones are refused at once, the first answer to a probe ends that",
  async () => {
    const guarded = new Guarded();
    const { clock, breaker, probes, changes } = guarded;
    const first = guarded.call();
    await guarded.ticks(10);
    const second = guarded.call();
    while (!breaker.isOpen) await guarded.ticks(1);
    expect(clock.elapsedMs).toBeLessThan(4_600);
    await setImmediate();
    expect([first.state, second.state, changes]).toEqual(["given up", "given up", [true]]);
    const third = guarded.call();
    await setImmediate();
    expect(third.state).toBe("refused");
    // One probe at a time, the next a while after the last has failed.
    await guarded.ticks(20);
    expect(probes).toHaveLength(1);
    for (let asked = 1; asked < 4; asked++) {
      probes.at(-1)?.reject(new Error("no answer"));
      await setImmediate();
      clock.advance(PROBE_EVERY_MS - 1);
      expect(probes).toHaveLength(asked);
      clock.advance(1);
      expect(probes).toHaveLength(asked + 1);
    }
    // What was given up is answered late, and that is no answer: it may be a connection that was dropped.
    first.end.resolve("late");
    await setImmediate();
    expect([first.state, breaker.isOpen]).toEqual(["given up", true]);
    probes.at(-1)?.resolve();
    await setImmediate();
    expect([breaker.isOpen, changes]).toEqual([false, [true, false]]);
    const fourth = guarded.call();
    fourth.end.resolve("answered");
    await setImmediate();
    expect(fourth.state).toBe("answered");
    await guarded.ticks(1);
    expect(clock.pending).toBe(0);
  },
);

verifies("silence.breaker", "a slow call opens nothing while others, or probes, are answered", async () => {
  const guarded = new Guarded();
  const slow = guarded.call();
  for (let round = 0; round < 10; round++) {
    const quick = guarded.call();
    await guarded.ticks(4);
    quick.end.reject(new Error("refused by the database"));
    await setImmediate();
    expect(quick.state).toBe("refused by the database");
  }
  expect(guarded.probes).toHaveLength(0);
  for (let round = 1; round < 5; round++) {
    await guarded.ticks(9);
    expect(guarded.probes).toHaveLength(round);
    guarded.probes.at(-1)?.resolve();
    await setImmediate();
  }
  expect(slow.state).toBe("waits");
  slow.end.resolve("answered at last");
  await setImmediate();
  expect([slow.state, guarded.changes]).toEqual(["answered at last", []]);
});

test("calls that run out of time are no answer, however many there are", async () => {
  const guarded = new Guarded();
  const call = guarded.call();
  while (!guarded.breaker.isOpen) {
    const other = guarded.call();
    await guarded.ticks(1);
    other.end.reject(new Error("timed out"));
  }
  await setImmediate();
  expect([call.state, guarded.changes]).toEqual(["given up", [true]]);
  expect(guarded.clock.elapsedMs).toBeLessThan(5_000);
});

test("a time in which this process stood still is no silence", async () => {
  const guarded = new Guarded();
  const call = guarded.call();
  // What repeats asks again for each time that it missed.
  const asking = guarded.clock.every(TICK_MS, () => guarded.call());
  for (let nap = 0; nap < 5; nap++) {
    // Asleep for a minute; the answer lies in the socket when it wakes up.
    guarded.clock.advance(60_000);
    await setImmediate();
  }
  asking.cancel();
  expect([call.state, guarded.breaker.isOpen, guarded.probes.length]).toEqual(["waits", false, 0]);
  call.end.resolve("answered");
  await setImmediate();
  expect(call.state).toBe("answered");
});

test("once it is stopped it probes no more, and still gives up what nobody answers", async () => {
  const guarded = new Guarded();
  const call = guarded.call();
  guarded.breaker.stop();
  await guarded.ticks(18);
  guarded.probes.at(-1)?.reject(new Error("no answer"));
  await setImmediate();
  expect([call.state, guarded.probes.length, guarded.clock.pending]).toEqual(["given up", 1, 0]);
});
