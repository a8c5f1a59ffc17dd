import type { Clock } from "../kit/clock.ts";
import type { FunctionSignature } from "../model/app.ts";
import type { Outcome } from "../model/outcome.ts";
import type { Exit, InitFailure, Usage } from "../engines/engine.ts";
import type { PrintedLine } from "../engines/log-lines.ts";
import type { Allowance } from "./meter.ts";
import type { SlotReplica } from "./slots/capacity.ts";
import type { Demand } from "./slots/slots.ts";

/** What has happened to an app's replicas since the service started, over all its versions. */
export type FleetCounts = {
  starts: number;
  /** Of those, the ones that ended the time without any ready replica. */
  coldStarts: number;
  /** Replicas that ended unexpectedly. */
  deaths: number;
};

/** Nothing has happened yet. */
export function newFleetCounts(): FleetCounts {
  return { starts: 0, coldStarts: 0, deaths: 0 };
}

/** A replica as a fleet knows it: it starts, takes calls and ends, whichever way calls reach it. */
export type FleetReplica<C> = SlotReplica<C> & {
  readonly id: string;
  readonly state: "starting" | "ready" | "draining" | "gone";
  /** 0 until it is ready. */
  readonly readyAt: number;
  /** When it last had nothing to do; meaningful while it holds no call. */
  readonly idleSince: number;
  /** It does not answer: a call given to it now would wait. */
  readonly isSilent: boolean;
  /** Checks whether it is alive; to be called every `HEARTBEAT_MS`. */
  checkHealth(): void;
  readonly startedAt: number;
  /** Of its process; 0 while nobody knows. */
  readonly pid: number;
  /** What its process and everything it started use; null if unknown. */
  usage(): Promise<Usage | null>;
  /** What keeps it from starting that is not its code, for people; null where nothing is known. */
  obstacle(): string | null;
  /** Orderly end: nothing new; what it holds goes on to its end, then the process exits. Killed if it does not. */
  stop(withinSeconds: number): void;
};

/** What a replica's owner learns from it. */
export type ReplicaEvents<C> = {
  onReady(functions: readonly FunctionSignature[]): void;
  /** There cannot be another beside it. */
  onSingle(): void;
  /** A call is over and its slot free. */
  onOutcome(call: C, outcome: Outcome): void;
  /** A call handed ahead was given back before it began. */
  onWithdrawn(call: C): void;
  /** The process is ending of its own accord; how, and what it held, `onGone` tells a moment later. */
  onEnding(): void;
  /** Its place is about to end: another is to take over before it goes. */
  onLeaving(): void;
  /** It does not answer, and is to have no more calls; or it does again. */
  onSilence(isSilent: boolean): void;
  /** The process is gone. Of the calls it held, oldest first, some may have begun and the others have not. */
  onGone(exit: Exit, begun: readonly C[], waiting: readonly C[]): void;
  onLog(line: PrintedLine): void;
  /** An error of our own met while it was listened to; it is being ended. */
  onError(error: unknown): void;
};

/** Where the replicas of a version come from. */
export type ReplicaSource<C, R> = {
  /** Whether it may turn out that there can be no second replica beside the first. */
  readonly mayBeSingle: boolean;
  /** Starts one. */
  open(id: string, events: ReplicaEvents<C>): R;
  /** Ends every process of the version, kept templates too. */
  close(): Promise<void>;
};

/** What the owner of a fleet learns, and what the fleet asks of it. */
export type FleetEvents<C, R> = {
  demand(): Demand;
  onReady(functions: readonly FunctionSignature[]): void;
  /** A call is over and its slot free, or gone with its replica. */
  onOutcome(call: C, outcome: Outcome): void;
  /** These calls never began: they are to wait again. */
  onReturned(calls: readonly C[]): void;
  /** The app cannot start, and no replica is left to serve. */
  onInitFailure(failure: InitFailure): void;
  /** One that did not answer takes calls again. */
  onAwake(): void;
  onReplicaGone(replicaId: string, exit: Exit): void;
  onLog(replica: R, line: PrintedLine): void;
  onError(error: unknown): void;
};

export type FleetParts<C, R> = {
  readonly source: ReplicaSource<C, R>;
  readonly clock: Clock;
  readonly events: FleetEvents<C, R>;
  readonly counts: FleetCounts;
  readonly allowance: Allowance;
};
