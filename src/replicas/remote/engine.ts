import type { Engine } from "../engine.ts";
import type { ProcessHost } from "../process/host.ts";
import { IdleTemplates } from "../process/idle-templates.ts";
import { ProcessSeat } from "../process/seat.ts";
import type { RemoteParts } from "./spawn-remote.ts";
import { startRemoteServer } from "./remote-server.ts";
import { spawnRemote } from "./spawn-in-seat.ts";

/** Runs replicas in seats elsewhere: in pods, actors, or whatever else a place starts. */
export function remoteEngine(host: ProcessHost, remote: RemoteParts): Engine {
  // They use memory elsewhere.
  const idle = new IdleTemplates(Number.POSITIVE_INFINITY);
  const parts = { ...host, idle, spawn: spawnRemote(remote), interpreterOf: () => "python3" };
  return {
    name: remote.place.name,
    replicasPerSeat: remote.replicasPerSeat ?? 1,
    open: (workload, keepMs, home, owner) => new ProcessSeat(parts, workload, keepMs, home, owner),
    serve: (workload, events) => startRemoteServer(remote, workload, host.clock, events),
  };
}
