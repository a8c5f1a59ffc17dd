import type { Clock } from "../kit/clock.ts";
import type { FunctionSignature } from "../model/app.ts";
import type { Outcome } from "../model/outcome.ts";
import type { Exit, InitFailure, StartTimes, Usage } from "../engines/engine.ts";
import type { PrintedLine } from "../engines/log-lines.ts";
import { BatchTally } from "./batch-tally.ts";
import type { Allowance } from "./meter.ts";
import type { SlotReplica, StartPhase } from "./slots/capacity.ts";
import type { Demand } from "./slots/slots.ts";

/** What has happened to an app's replicas since the service started, over all its versions. */
export type FleetCounts = {
  starts: number;
  /** Starts that gave the app its first ready replica while calls waited for it; no call waits for the check of a deploy. */
  coldStarts: number;
  /** Replicas that ended unexpectedly. */
  deaths: number;
  /** Batches that left for them. */
  readonly batches: BatchTally;
};

export function newFleetCounts(): FleetCounts {
  return { starts: 0, coldStarts: 0, deaths: 0, batches: new BatchTally() };
}

/** A replica as a fleet sees it, whichever way calls reach it. */
export type FleetReplica<C> = SlotReplica<C> & {
  readonly id: string;
  readonly state: "starting" | "ready" | "draining" | "gone";
  /** How far its start is; meaningful until it is ready. */
  readonly startPhase: StartPhase;
  /** When its start has come how far, by the monotonic clock; absent where that is not known. */
  startTimes?(): StartTimes & { readonly begunAt: number };
  /** 0 until it is ready. */
  readonly readyAt: number;
  /** When it last became idle; meaningful while it holds no call. */
  readonly idleSince: number;
  /** It does not respond: a call given to it now would wait. */
  readonly isSilent: boolean;
  /** Checks whether it is alive and healthy; called every `HEARTBEAT_MS`. */
  checkHealth(): void;
  readonly startedAt: number;
  /** Its process id; 0 if unknown. */
  readonly pid: number;
  /** What its process and everything it started use; null if unknown. */
  usage(): Promise<Usage | null>;
  /** Why it has not started, if that is not the fault of its code; for people. */
  obstacle(): string | null;
  readonly waitsForGpu: boolean;
  /** Orderly end: no new calls; the ones it holds run to their end, then the process exits. Killed if it does not. */
  stop(withinSeconds: number): void;
};

/** What a replica reports. */
export type ReplicaEvents<C> = {
  onReady(functions: readonly FunctionSignature[]): void;
  /** No second replica can run beside it. */
  onSingle(): void;
  /** A call is over and its slot free, or gone with its replica. */
  onOutcome(call: C, outcome: Outcome): void;
  /** A call handed ahead was given back before it began. */
  onWithdrawn(call: C): void;
  /** It waits for a GPU no longer. */
  onGranted(): void;
  /** The process is ending by itself; `onGone` follows. */
  onEnding(): void;
  /** Its pod or machine is about to end: it should be replaced before that. */
  onLeaving(): void;
  /** It stopped or started to respond; a silent replica gets no calls. */
  onSilence(isSilent: boolean): void;
  /** The process is gone. Of the calls it held, oldest first, some may have begun and the others have not. */
  onGone(exit: Exit, begun: readonly C[], waiting: readonly C[]): void;
  onLog(line: PrintedLine): void;
  /** An internal error while reading from it; it is being ended. */
  onError(error: unknown): void;
};

/** Starts the replicas of a version. */
export type ReplicaSource<C, R> = {
  /** Whether the first replica may rule out a second one. */
  readonly mayBeSingle: boolean;
  open(id: string, events: ReplicaEvents<C>): R;
  /** Ends every process of the version, kept templates too. */
  close(): Promise<void>;
};

/** What a fleet reports to its owner, and asks it. */
export type FleetEvents<C, R> = Pick<ReplicaEvents<C>, "onReady" | "onOutcome" | "onError"> & {
  demand(): Demand;
  /** These calls never began, and wait again. */
  onReturned(calls: readonly C[]): void;
  /** The app cannot start, and no replica is left to serve. */
  onInitFailure(failure: InitFailure): void;
  /** A silent replica responds again. */
  onAwake(): void;
  onReplicaGone(replicaId: string, exit: Exit): void;
  onLog(replica: R, line: PrintedLine): void;
};

export type FleetParts<C, R> = {
  readonly source: ReplicaSource<C, R>;
  readonly clock: Clock;
  readonly events: FleetEvents<C, R>;
  readonly counts: FleetCounts;
  readonly allowance: Allowance;
};
