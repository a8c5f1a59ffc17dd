import type { AppConfig, CustomRuntimeConfig } from "../../model/app-config.ts";
import type { Call } from "../call.ts";
import type { ReplicaSource } from "../fleet-events.ts";
import type { PoolParts } from "../pool-events.ts";
import { LastLines, ServerReplica } from "./server-replica.ts";

/** Starts the replicas that are servers of the app's own: each is reached on a port. */
export function serverReplicas(
  { deployment }: AppConfig,
  checks: CustomRuntimeConfig,
  { seats, clock }: Pick<PoolParts, "seats" | "clock">,
): ReplicaSource<Call, ServerReplica> {
  return {
    // Its port may be in its code.
    mayBeSingle: true,
    open: (id, events) => {
      const lines = new LastLines();
      const replica: ServerReplica = new ServerReplica(id, { clock, events, checks, lines });
      const started = seats.serve({
        onLog: (line) => {
          // Only a start that fails needs them.
          if (replica.readyAt === 0) lines.add(line.text);
          events.onLog(line);
        },
        onError: (error) => events.onError(error),
      });
      void started.leaving?.then(() => events.onLeaving());
      replica.bindTo(started, deployment.deploymentInitializationTimeoutSeconds);
      return replica;
    },
    close: () => seats.close(),
  };
}
