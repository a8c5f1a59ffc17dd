import type { Outcome } from "../../model/outcome.ts";
import type { ScalingConfig } from "../../model/app-config.ts";
import type { Fairness } from "../../model/queue-limits.ts";
import type { WaitPhase } from "../../model/run.ts";
import type { Batch } from "./batch.ts";

/** The queue of a call: a waiting caller's, or that of async runs. */
export type Lane = "caller" | "backlog";

/**
 * How far the start of a replica is: it waits for a GPU, its process starts, which imports `main.py`, or its `setup()` runs.
 */
export type StartPhase = Exclude<WaitPhase, "queued">;

/** A call as slots see it: they do not know how it reaches its replica. */
export type SlotCall = {
  readonly lane: Lane;
  readonly functionName: string;
  /** Whose turn it takes; null for a caller without a key. Never changes. */
  readonly fairness: Fairness | null;
  /** Its arguments, as JSON. */
  readonly body: Buffer;
  /** The replica that holds it; null while it waits. */
  holder: object | null;
  readonly hasEnded: boolean;
  isCancelled: boolean;
  /** It has no time limit. */
  readonly isEndless: boolean;
  /** Tells an endless call that it has to end. */
  farewell(): void;
  /** Monotonic milliseconds. */
  enqueuedAt: number;
  /** 0 while it has not been handed over. */
  handedAt: number;
  /** The ready clock when the call began to wait. */
  readyMsAtStart: number;
  /** How long no replica was ready during the wait. */
  coldMs: number;
  /** The part of that in which its replica ran `setup()`. */
  setupMs: number;
  /** Where it waits for others; null if it does not, or runs by itself. */
  group: object | null;
  /** How long its function may run; 0 if there is no limit. */
  limitMs: number;
  /** By which it counts in a batch. */
  size: number;
  /** Those with which it was handed over; null if it runs by itself. */
  batch: Batch | null;
  /** A stepper runs it, beside the calls that use slots. */
  isStepped: boolean;
  /** Its replica ended while it was in a batch: it is not put into another one. */
  isAlone: boolean;
  /** Its reader has nothing of it yet. */
  readonly mayRunAgain: boolean;
  /** Tells the reader how it ended. Only the first call counts. */
  end(outcome: Outcome): void;
};

/** A replica as slots see it, whichever way calls reach it. */
export type SlotReplica<C> = {
  /** How long its `setup()` took, at the end of its start; null if it has none. */
  readonly setupMs: number | null;
  /** The calls it holds, oldest first. */
  readonly calls: { readonly size: number; values(): Iterable<C>; holds(call: C): boolean };
  /** When the call now at the head got there. */
  headSince: number;
  /** The service ends it; the app has not failed. */
  isCondemned: boolean;
  /** It has taken almost as many calls as it can. */
  readonly isWorn: boolean;
  /** How many of its slots are in use. */
  readonly busy: number;
  /** How many more calls a stepper of it takes now, how many it has, and how many it takes in all. */
  stepper?(functionName: string): { readonly room: number; readonly held: number; readonly capacity: number };
  hand(call: C, now: number): void;
  /** Hands over calls of a function that share an execution. Servers have no functions. */
  handBatch?(calls: readonly C[], now: number): void;
  /** Asks for a call back; it comes if it had not begun. */
  withdraw(call: C): void;
  /** Stops a call's code; its outcome follows when the code has really stopped. */
  cancel(call: C): void;
  /** Ends it with all its calls, now. */
  kill(): void;
};

/** Why no replica can start. */
export type StartFailure = { readonly message: string; readonly lacksGpu?: true };

/** The replicas as slots see them, explained in `Fleet`. Times are monotonic milliseconds. */
export type Capacity<C> = {
  readonly replicas: ReadonlySet<SlotReplica<C>>;
  readonly ready: readonly SlotReplica<C>[];
  readonly awake: readonly SlotReplica<C>[];
  readonly readyClock: { elapsed(now: number): number };
  /** How far the start is that is closest to its end; null while a replica is ready, and if none starts. */
  readonly startPhase: StartPhase | null;
  setScaling(scaling: ScalingConfig): void;
  holdMs(now: number): number;
  failure(now: number): { readonly failure: StartFailure; readonly waitMs: number } | null;
  /** Whether a start waits that has no GPU yet. */
  readonly waitsForGpu: boolean;
  /** What such a start waits for; null if none waits. That takes a millisecond to find out. */
  gpuObstacle(): string | null;
  scale(): void;
  grow(): void;
  noteIdle(): void;
  noteHealth(): void;
  retire(replica: SlotReplica<C>): void;
  drain(): Promise<void>;
  close(): Promise<void>;
};
