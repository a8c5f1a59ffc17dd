import type { AppConfig } from "../model/app-config.ts";
import type { Call } from "./call.ts";
import type { Started } from "../engines/engine.ts";
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
      let isConfined: Promise<void> | null = null;
      // As soon as its process is known, and once: it goes on starting meanwhile.
      const confine = (pid: number): Promise<void> | null => (isConfined ??= started?.confine?.(pid) ?? null);
      let started: Started | null = null;
      const replica: Replica = new Replica(id, {
        clock,
        limits,
        owner,
        events: {
          ...events,
          onReady: (functions) => {
            const confined = confine(replica.pid);
            if (!confined) events.onReady(functions);
            else
              confined.then(
                () => replica.state === "ready" && events.onReady(functions),
                (error: unknown) => {
                  events.onError(error);
                  replica.kill();
                },
              );
          },
          onWithdrawn: (call) => {
            call.wireId = 0;
            events.onWithdrawn(call);
          },
          onGone: (exit, lost, unread) => {
            home.forget(ticket);
            // Calls begin in order, and a result is sent before the next call begins: only these can have begun. On
            // the way from elsewhere results may have been lost, so that any of them can.
            const begun = isElsewhere
              ? lost
              : lost.slice(0, scaling.replicaConcurrency).filter((call) => call !== unread);
            const waiting = lost.filter((call) => !begun.includes(call));
            for (const call of waiting) call.wireId = 0;
            // Its connections may have ended long before the news of how it did.
            const isTold = exit.fault !== undefined || exit.silence !== undefined;
            events.onGone(isTold ? exit : (started?.judge?.(exit) ?? exit), begun, waiting);
          },
        },
      });
      let isElsewhere = false;
      const ticket = home.expect((kind, socket, pid) => {
        isElsewhere ||= socket.remoteAddress !== undefined;
        // Of a failure whoever waits for it below hears.
        if (pid !== null) confine(pid)?.catch(() => {});
        replica.attach(kind, socket, pid);
      });
      started = seats.start({ id, ticket });
      void started.leaving?.then(() => events.onLeaving());
      replica.bindTo(started, deployment.deploymentInitializationTimeoutSeconds);
      return replica;
    },
    close: () => seats.close(),
  };
}
