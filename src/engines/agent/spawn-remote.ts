import { orderOf, over } from "../local/spawn.ts";
import type { Spawn } from "../local/spawn.ts";
import { seatFor } from "./find-seat.ts";
import { refused, whatIsMissing } from "./refusals.ts";
import type { RemoteParts } from "./remote-parts.ts";

/** Starts templates and replicas in seats elsewhere: an agent there fetches the app, starts it and passes on what it says. */
export function spawnRemote(parts: RemoteParts): Spawn {
  return (start, clock, events) => {
    const failure = whatIsMissing(start.workload);
    if (failure !== null) return over(refused(failure));
    const { workload, folders, tickets } = start;
    const order: unknown = JSON.parse(orderOf(workload, { ...folders, bundle: "" }, "", tickets));
    return seatFor(parts, { workload, order, server: null }, clock, events).process;
  };
}
