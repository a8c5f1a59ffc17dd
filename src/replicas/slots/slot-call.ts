import type { Outcome } from "../../model/outcome.ts";

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
