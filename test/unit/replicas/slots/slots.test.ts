import { beforeEach, expect, test } from "vitest";
import type { ScalingConfig } from "../../../../src/model/app-config.ts";
import type { Outcome } from "../../../../src/model/outcome.ts";
import type { Capacity, Lane, SlotCall, SlotReplica } from "../../../../src/replicas/slots/capacity.ts";
import { Slots } from "../../../../src/replicas/slots/slots.ts";
import { Watch } from "../../../../src/replicas/slots/watch.ts";
import { HandClock } from "../../../support/clocks.ts";
import { sampleScaling } from "../sample-scaling.ts";

/** A call that reaches its replica in no way at all: slots ask nothing of that. */
class PlainCall implements SlotCall {
  readonly name: string;
  readonly lane: Lane;
  readonly functionName = "run";
  readonly fairness = null;
  readonly body = Buffer.alloc(0);
  readonly #said: string[];
  holder: object | null = null;
  hasEnded = false;
  isCancelled = false;
  isEndless = false;
  enqueuedAt = 0;
  handedAt = 0;
  readyMsAtStart = 0;
  coldMs = 0;
  setupMs = 0;
  group = null;
  limitMs = 0;
  size = 1;
  batch = null;
  isStepped = false;
  isAlone = false;
  mayRunAgain = true;

  constructor(name: string, lane: Lane, said: string[]) {
    this.name = name;
    this.lane = lane;
    this.#said = said;
  }

  farewell(): void {
    this.#said.push(`${this.name} told to end`);
  }

  end(outcome: Outcome): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.#said.push(`${this.name} ${outcome.kind === "refused" ? outcome.code : outcome.kind}`);
  }
}

/** Slots of one replica that is played, and all that was said, in order. */
function playedSlots(changes: Partial<ScalingConfig> = {}, played: Partial<Capacity<PlainCall>> = {}) {
  const said: string[] = [];
  const clock = new HandClock();
  const held: PlainCall[] = [];
  const replica: SlotReplica<PlainCall> = {
    setupMs: null,
    calls: {
      get size() {
        return held.length;
      },
      values: () => held,
      holds: (call) => held.includes(call),
    },
    get busy() {
      return held.length;
    },
    headSince: 0,
    isCondemned: false,
    isWorn: false,
    hand: (call, now) => {
      call.holder = replica;
      call.handedAt = now;
      held.push(call);
      said.push(`${call.name} handed`);
    },
    withdraw: (call) => void said.push(`${call.name} asked back`),
    cancel: (call) => void said.push(`${call.name} stopped`),
    kill: () => void said.push("killed"),
  };
  const capacity: Capacity<PlainCall> = {
    replicas: new Set([replica]),
    ready: [replica],
    awake: [replica],
    readyClock: { elapsed: (now) => now },
    startPhase: null,
    setScaling: () => {},
    holdMs: () => 0,
    failure: () => null,
    waitsForGpu: false,
    gpuObstacle: () => null,
    scale: () => {},
    grow: () => {},
    noteIdle: () => {},
    noteHealth: () => {},
    retire: () => void said.push("retired"),
    drain: async () => void said.push("drained"),
    close: async () => void said.push("closed"),
    ...played,
  };
  const slots = new Slots(sampleScaling({ maxReplicas: 1, ...changes }), capacity, clock, {
    mayHandAhead: true,
  });
  const submit = (name: string, lane: Lane = "caller"): PlainCall => {
    const call = new PlainCall(name, lane, said);
    slots.submit(call);
    return call;
  };
  /** The replica is done with a call. */
  const finish = (call: PlainCall): void => {
    held.splice(held.indexOf(call), 1);
    slots.onOutcome(call, { kind: "streamed", runMs: 50 });
  };
  return { slots, said, clock, submit, finish };
}

test("a free slot is given at once, and again before the call that had it is answered", () => {
  const { submit, finish, said } = playedSlots();
  const first = submit("a");
  submit("b");
  finish(first);
  expect(said).toEqual(["a handed", "b handed", "a streamed"]);
});

test("more callers than max_queue are refused, a backlog is not", () => {
  const { submit, said } = playedSlots({ maxQueue: 1 });
  for (const name of ["a", "b", "c"]) submit(name);
  submit("d", "backlog");
  expect(said).toEqual(["a handed", "c queue_full"]);
});

test("a call that is given up keeps its slot until its code has stopped", () => {
  const { slots, submit, finish, said } = playedSlots();
  const first = submit("a");
  submit("b");
  slots.abandon(first, { kind: "cancelled" });
  expect(said).toEqual(["a handed", "a stopped", "a cancelled"]);
  finish(first);
  expect(said.slice(3)).toEqual(["b handed"]);
});

test("at the end callers who wait are served, and a backlog waits elsewhere", async () => {
  const { slots, submit, finish, said, clock } = playedSlots();
  const first = submit("a");
  const second = submit("b");
  submit("c", "backlog");
  const drained = slots.drain();
  submit("d");
  finish(first);
  finish(second);
  clock.advance(10);
  await drained;
  expect(said).toEqual([
    "a handed",
    "c draining",
    "d draining",
    "b handed",
    "a streamed",
    "b streamed",
    "drained",
  ]);
});

test("calls that wait go to an heir, and so do those that still come; there they can be given up", () => {
  const old = playedSlots();
  const next = playedSlots();
  const first = old.submit("a");
  const second = old.submit("b");
  old.finish(first);
  const third = old.submit("c");
  old.finish(second);
  old.submit("d", "backlog");
  old.slots.heir = next.slots;
  old.submit("e");
  expect(old.said).toEqual(["a handed", "b handed", "a streamed", "c handed", "b streamed"]);
  expect([old.slots.waiting, next.slots.waiting]).toEqual([0, 1]);
  expect(next.slots.backlogRoom).toBe(old.slots.backlogRoom);
  old.slots.abandon(third, { kind: "cancelled" });
  expect(old.said.slice(5)).toEqual(["c stopped", "c cancelled"]);
  expect(next.said).toEqual(["d handed"]);
  old.slots.heir = null;
  old.submit("f");
  expect([old.slots.waiting, next.slots.waiting]).toEqual([1, 1]);
});

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

test("calls that wait too long for a GPU ask once what it waits for, and the start is given up", () => {
  const asked: string[] = [];
  const { submit, said, clock } = playedSlots(
    { maxQueueSeconds: 5 },
    {
      ready: [],
      awake: [],
      waitsForGpu: true,
      gpuObstacle: () => {
        asked.push("obstacle");
        return "it is in use";
      },
      scale: () => void asked.push("scale"),
    },
  );
  for (const name of ["a", "b", "c"]) submit(name);
  asked.length = 0;
  clock.advance(6_000);
  expect(said).toEqual(["a no_gpu_free", "b no_gpu_free", "c no_gpu_free"]);
  expect(asked.filter((each) => each === "obstacle")).toHaveLength(1);
  expect(asked.at(-1)).toBe("scale");
});
