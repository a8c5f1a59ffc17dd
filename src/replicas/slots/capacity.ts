import type { Outcome } from "../../model/outcome.ts";
import type { ScalingConfig } from "../../model/app-config.ts";

/** Whose time a call takes: a caller's who waits for the answer, or that of a run from the backlog. */
export type Lane = "caller" | "backlog";

/** What slots know about a call. They do not know how it reaches its replica. */
export type SlotCall = {
  readonly lane: Lane;
  /** The replica whose slot it has; null while it waits. */
  holder: object | null;
  readonly hasEnded: boolean;
  isCancelled: boolean;
  /** No time limit holds for it. */
  readonly isEndless: boolean;
  /** One that is endless is told that it has to end. */
  farewell(): void;
  /** Monotonic milliseconds. */
  enqueuedAt: number;
  readonly handedAt: number;
  /** The count of milliseconds with a ready replica, when the call began to wait. */
  readyMsAtStart: number;
  /** Milliseconds of the wait in which no replica was ready. */
  coldMs: number;
  /** Tells the reader how it ended, the first time. */
  end(outcome: Outcome): void;
};

/** A replica as slots know it: something that takes calls, whichever way they reach it. */
export type SlotReplica<C> = {
  /** Calls in its hands, oldest first. */
  readonly calls: { readonly size: number; values(): Iterable<C>; holds(call: C): boolean };
  /** When the call now at the head got there. */
  headSince: number;
  /** Its end is our own doing, not the app's. */
  isCondemned: boolean;
  /** It has taken about as many calls as it can in its life. */
  readonly isWorn: boolean;
  hand(call: C, now: number): void;
  /** Asks for a call back; it comes if it had not begun. */
  withdraw(call: C): void;
  /** Stops a call's code; its outcome follows when the code has really stopped. */
  cancel(call: C): void;
  /** Ends it with all it holds, now. */
  kill(): void;
};

/** The replicas whose slots are given out, as far as that needs them. Times are monotonic milliseconds. */
export type Capacity<C> = {
  readonly replicas: ReadonlySet<SlotReplica<C>>;
  /** Those that have started and do not end yet. */
  readonly ready: readonly SlotReplica<C>[];
  /** Of those, the ones that answer: only they are given calls. */
  readonly awake: readonly SlotReplica<C>[];
  /** Counts the time in which at least one replica was ready. */
  readonly readyClock: { elapsed(now: number): number };
  setScaling(scaling: ScalingConfig): void;
  /** For how long no replica is ready and none may be started, because the last ones failed. */
  holdMs(now: number): number;
  /** Why a call would wait in vain now, and for how long that will be so. */
  failure(now: number): { readonly failure: { readonly message: string }; readonly waitMs: number } | null;
  /** Brings the number of replicas in line with the load. */
  scale(): void;
  /** A call found every slot taken: more replicas are wanted, if there may be more. */
  grow(): void;
  noteIdle(): void;
  noteHealth(): void;
  /** Takes a replica out of service; it finishes what it holds and exits. */
  retire(replica: SlotReplica<C>): void;
  /** Asks every replica to end and waits until the last is gone. */
  drain(): Promise<void>;
  /** Ends every replica now, and whatever is left of them. */
  close(): Promise<void>;
};
