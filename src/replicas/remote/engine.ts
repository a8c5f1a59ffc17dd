import type { Engine, Exit, StartedServer } from "../engine.ts";
import type { ProcessHost } from "../process/host.ts";
import { IdleTemplates } from "../process/idle-templates.ts";
import { ProcessSeat } from "../process/seat.ts";
import { spawnRemote } from "./spawn-remote.ts";
import type { RemoteParts } from "./spawn-remote.ts";

/** Runs replicas in seats elsewhere: in pods, actors, or whatever else a place starts. */
export function remoteEngine(host: ProcessHost, remote: RemoteParts): Engine {
  // They use memory elsewhere.
  const idle = new IdleTemplates(Number.POSITIVE_INFINITY);
  const parts = { ...host, idle, spawn: spawnRemote(remote), interpreterOf: () => "python3" };
  return {
    name: remote.place.name,
    replicasPerSeat: remote.replicasPerSeat ?? 1,
    open: (workload, keepMs, home, owner) => new ProcessSeat(parts, workload, keepMs, home, owner),
    serve: () => notYet(remote.place.name),
  };
}

function notYet(place: string): StartedServer {
  const message = `The app cannot start: apps that are servers of their own do not run on ${place} yet.`;
  const exit: Exit = { detail: message, initFailure: { message, traceback: message } };
  return {
    pid: 0,
    exited: Promise.resolve(exit),
    kill: () => {},
    askToEnd: () => {},
    place: async () => ({ kind: "nowhere" }),
    usage: async () => null,
  };
}
