import type { Clock } from "../kit/clock.ts";
import type { Exit } from "../engines/engine.ts";
import type { FleetCounts } from "./fleet-events.ts";
import type { FunctionSignature } from "../model/app.ts";
import type { Home } from "../engines/home.ts";
import type { PrintedLine } from "../engines/log-lines.ts";
import type { Seats } from "./seats.ts";

/** What a pool is made of. */
export type PoolParts = {
  /** Where its replicas start. */
  readonly seats: Pick<Seats, "start" | "serve" | "close">;
  readonly home: Home;
  readonly clock: Clock;
  readonly events: PoolEvents;
  /** What earlier versions of the app have counted, to go on from. */
  readonly counts?: FleetCounts;
  /** The app's owner: all apps of one owner share one turn when output is read. */
  readonly owner?: string;
};

/** A line some replica of the pool printed. */
export type PoolLogLine = PrintedLine & { readonly replicaId: string };

/** What the owner of a pool learns from it. */
export type PoolEvents = {
  onLog(line: PoolLogLine): void;
  /** The first replica has said what `main.py` offers. */
  onFunctions(functions: readonly FunctionSignature[]): void;
  onReplicaGone(replicaId: string, exit: Exit): void;
  /** An error of our own, met while a replica was listened to; that replica is being ended. */
  onError(error: unknown): void;
};
