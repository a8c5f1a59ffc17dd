import { PYTHON_ELSEWHERE } from "../../host/app-python.ts";
import type { Engine } from "../engine.ts";
import type { ProcessHost } from "../local/host.ts";
import { IdleTemplates } from "../templates/template-line.ts";
import { ProcessSeat } from "../templates/seat.ts";
import type { RemoteParts } from "./session.ts";
import { startRemoteServer } from "./remote-server.ts";
import { spawnRemote } from "./spawn-remote.ts";

/** Runs replicas in seats elsewhere: in pods, actors, or whatever else a place starts. */
export function remoteEngine(host: ProcessHost, remote: RemoteParts): Engine {
  // They use memory elsewhere.
  const idle = new IdleTemplates(Number.POSITIVE_INFINITY);
  const parts = { ...host, idle, spawn: spawnRemote(remote), interpreterOf: () => PYTHON_ELSEWHERE };
  return {
    name: remote.place.name,
    replicasPerSeat: remote.replicasPerSeat ?? 1,
    reserves: true,
    open: (workload, keepMs, home, owner) => new ProcessSeat(parts, workload, keepMs, home, owner),
    serve: (workload, events) => startRemoteServer(remote, workload, host.ports, host.clock, events),
  };
}
