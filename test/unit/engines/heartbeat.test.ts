import { expect, test } from "vitest";
import { ALL_THREADS, type ThreadVitals, type Vitals } from "../../../src/engines/engine.ts";
import { Heartbeat, HEARTBEAT_MS, HeartbeatTimer } from "../../../src/engines/heartbeat.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

/** What one thread has used, and whether it wants more. */
type Thread = ThreadVitals & { readonly id: number };

const THREAD: Thread = { id: 1, usedMs: 300, isRunnable: false };

/** A heartbeat of a process that a test plays, felt round by round. */
class HeartbeatByHand {
  readonly told: string[] = [];
  isStopped = false;
  isSeen = true;
  threads: readonly Thread[] = [THREAD];
  /** How far apart two rounds are for the process itself. */
  roundMs = HEARTBEAT_MS;
  #atMs = 0;
  readonly heartbeat = new Heartbeat({
    ping: () => this.told.push("asked"),
    look: () => this.#look(),
    onSilence: (isSilent) => this.told.push(isSilent ? "silent" : "awake"),
    onDead: (why) => this.told.push(why),
  });

  /** So many rounds; `before` says what happens ahead of each. */
  pass(rounds: number, before: (round: number) => void = () => {}): string[] {
    for (let round = 1; round <= rounds; round++) {
      before(round);
      this.#atMs += this.roundMs;
      this.heartbeat.check();
    }
    return this.told;
  }

  #look(): Vitals | null {
    if (!this.isSeen) return null;
    const threads = new Map(this.threads.map(({ id, ...thread }) => [id, thread]));
    return { atMs: this.#atMs, isStopped: this.isStopped, threads };
  }
}

/** One that was asked and has not answered. */
function asked(): HeartbeatByHand {
  const hand = new HeartbeatByHand();
  expect(hand.pass(2)).toEqual(["asked"]);
  hand.told.length = 0;
  return hand;
}

const HUNG = "it hung: it did not answer and did nothing for 5 s";

test("one that speaks is never asked, one that is quiet is, and answers", () => {
  const busy = new HeartbeatByHand();
  expect(busy.pass(20, () => busy.heartbeat.hear())).toEqual([]);
  const idle = new HeartbeatByHand();
  // Heard, asked, heard…
  for (let question = 1; question <= 4; question++) {
    expect(idle.pass(2)).toEqual(Array<string>(question).fill("asked"));
    idle.heartbeat.hear();
  }
});

test("one that does not answer is silent until it says something", () => {
  const hand = asked();
  expect(hand.pass(3)).toEqual(["silent"]);
  hand.heartbeat.hear();
  expect(hand.told).toEqual(["silent", "awake"]);
  expect(hand.pass(3)).toEqual(["silent", "awake", "asked", "silent"]);
});

verifies("replica.silent.dead", "silent for 5 s and stopped is dead, and sooner it is not", () => {
  const hand = asked();
  hand.isStopped = true;
  expect(hand.pass(4)).toEqual(["silent"]);
  expect(hand.pass(5)).toEqual(["silent", "it was stopped and did not answer for 5 s"]);
  const saved = asked();
  saved.isStopped = true;
  saved.pass(4);
  saved.heartbeat.hear();
  expect(saved.pass(6)).toEqual(["silent", "awake", "asked", "silent"]);
});

verifies("replica.silent.dead", "silent while no thread does anything for 5 s is dead", () => {
  const hand = asked();
  expect(hand.pass(5)).toEqual(["silent"]);
  expect(hand.pass(1)).toEqual(["silent", HUNG]);
});

verifies("replica.silent.dead", "threads that wait for the interpreter do nothing, however many", () => {
  const hand = asked();
  // Each looks for it 200 times a second.
  const waits = (round: number): void => {
    hand.threads = [1, 2, 3, 4, 5, 6, 7, 8].map((id) => ({ ...THREAD, id, usedMs: 3 * round }));
  };
  expect(hand.pass(6, waits)).toEqual(["silent", HUNG]);
});

verifies("replica.silent.computing", "silent while one of its threads computes is silent, and lives", () => {
  const hand = asked();
  const computes = (round: number): void => {
    hand.threads = [THREAD, { id: 2, usedMs: 11 * round, isRunnable: false }];
  };
  expect(hand.pass(1_000, computes)).toEqual(["silent"]);
  // Then it hangs.
  expect(hand.pass(6)).toEqual(["silent", HUNG]);
});

verifies("replica.silent.computing", "of many threads together the least that they do is work", () => {
  const hand = asked();
  const stirs = (round: number): void => {
    hand.threads = [{ id: ALL_THREADS, usedMs: 10 * Math.floor(round / 4), isRunnable: false }];
  };
  expect(hand.pass(100, stirs)).toEqual(["silent"]);
  // Then it hangs.
  expect(hand.pass(6)).toEqual(["silent", HUNG]);
});

verifies("replica.silent.computing", "one that gets no processor is not to blame", () => {
  const hand = asked();
  hand.threads = [THREAD, { id: 2, usedMs: 0, isRunnable: true }];
  expect(hand.pass(100)).toEqual(["silent"]);
  // One that wants a processor only now and then waits for something else.
  const wakes = (round: number): void => {
    hand.threads = [{ ...THREAD, isRunnable: round % 2 === 0 }];
  };
  expect(hand.pass(12, wakes)).toEqual(["silent", HUNG]);
});

test("nothing is told by looks in quick succession, or by none", () => {
  const quick = asked();
  quick.roundMs = 10;
  expect(quick.pass(90)).toEqual(["silent"]);
  const unseen = asked();
  unseen.isSeen = false;
  expect(unseen.pass(100)).toEqual(["silent"]);
});

verifies(
  "replica.silent.awake",
  "however much time has passed, it is one round until the service has listened again",
  async () => {
    const clock = new HandClock();
    let visits = 0;
    const rounds = new HeartbeatTimer(clock, () => (visits += 1));
    rounds.start();
    rounds.start();
    for (let night = 1; night <= 3; night++) {
      clock.advance(8 * 3600 * 1000);
      expect(visits).toBe(night);
      await new Promise((resolve) => setImmediate(resolve));
    }
    rounds.stop();
    clock.advance(10_000);
    expect([visits, clock.pending]).toEqual([3, 0]);
  },
);
