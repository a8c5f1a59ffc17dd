import type { Clock } from "../kit/clock.ts";
import type { Call } from "./call.ts";
import type { Exit } from "../engines/engine.ts";
import type { ReplicaEvents } from "./fleet-events.ts";
import type { PayloadLimits } from "../engines/protocol.ts";

/** What is learned from a replica that takes its calls by the wire. */
export type WireReplicaEvents = Omit<ReplicaEvents<Call>, "onGone" | "onSingle" | "onLeaving"> & {
  /** The process is gone; `lost` are the calls it held, oldest first, and `unread` is one that it cannot have begun. */
  onGone(exit: Exit, lost: readonly Call[], unread: Call | null): void;
};

/** What such a replica is made of. */
export type ReplicaParts = {
  readonly clock: Clock;
  readonly events: WireReplicaEvents;
  readonly limits: PayloadLimits;
  /** Whose it is: what is read of all that is one owner's has one turn among those of others. */
  readonly owner?: string;
};
