import type { Clock } from "../kit/clock.ts";
import type { FunctionSignature } from "../model/app.ts";
import type { Outcome } from "../model/outcome.ts";
import type { Call } from "./call.ts";
import type { Exit } from "./engine.ts";
import type { LogLine } from "./log-lines.ts";
import type { PayloadLimits } from "./wire-limits.ts";

/** What a replica's owner learns from it. */
export type ReplicaEvents = {
  onReady(functions: readonly FunctionSignature[]): void;
  /** A call is over and its slot free. */
  onOutcome(call: Call, outcome: Outcome): void;
  /** A call handed ahead was given back before it began. */
  onWithdrawn(call: Call): void;
  /** The process is ending of its own accord; how, and what it held, `onGone` tells a moment later. */
  onEnding(): void;
  /** It does not answer, and is to have no more calls; or it does again. */
  onSilence(isSilent: boolean): void;
  /** The process is gone; `lost` are the calls it held, oldest first, and `unread` is one that it cannot have begun. */
  onGone(exit: Exit, lost: readonly Call[], unread: Call | null): void;
  onLog(line: LogLine): void;
  /** An error of our own met while it was listened to; it is being ended. */
  onError(error: unknown): void;
};

/** What a replica is made of. */
export type ReplicaParts = {
  readonly clock: Clock;
  readonly events: ReplicaEvents;
  readonly limits: PayloadLimits;
  /** Whose it is: what is read of all that is one owner's has one turn among those of others. */
  readonly owner?: string;
};
