import type { AppConfig } from "../model/app-config.ts";
import type { Call } from "./call.ts";
import type { ReplicaSource } from "./fleet-events.ts";
import type { PoolParts } from "./pool-events.ts";
import { Replica } from "./replica.ts";

/** Starts the replicas that take calls by the wire: each starts in a seat and calls home. */
export function functionReplicas(
  { scaling, limits, deployment }: AppConfig,
  { seats, home, clock, owner = "" }: Pick<PoolParts, "seats" | "home" | "clock" | "owner">,
): ReplicaSource<Call, Replica> {
  return {
    mayBeSingle: false,
    open: (id, events) => {
      const replica: Replica = new Replica(id, {
        clock,
        limits,
        owner,
        events: {
          ...events,
          onWithdrawn: (call) => {
            call.wireId = 0;
            events.onWithdrawn(call);
          },
          onGone: (exit, lost, unread) => {
            home.forget(ticket);
            // Calls begin in order, and a result is sent before the next call begins: only these can have begun.
            const begun = lost.slice(0, scaling.replicaConcurrency).filter((call) => call !== unread);
            const waiting = lost.filter((call) => !begun.includes(call));
            for (const call of waiting) call.wireId = 0;
            events.onGone(exit, begun, waiting);
          },
        },
      });
      const ticket = home.expect((kind, socket, pid) => replica.attach(kind, socket, pid));
      replica.bindTo(seats.start({ id, ticket }), deployment.deploymentInitializationTimeoutSeconds);
      return replica;
    },
    close: () => seats.close(),
  };
}
