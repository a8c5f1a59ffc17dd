import type { Engine, Workload } from "../engine.ts";
import { appInterpreter } from "./app-interpreter.ts";
import { IdleTemplates } from "../templates/idle-templates.ts";
import { ProcessSeat } from "../templates/seat.ts";
import type { ProcessHost } from "./host.ts";
import { ProcessServer } from "./server/process-server.ts";
import { spawnPython } from "./spawn.ts";
import type { Spawn } from "./spawn.ts";

/** Runs replicas as processes of this machine; `spawn` starts them. */
export function processEngine(host: ProcessHost, spawn: Spawn = spawnPython): Engine {
  const interpreterOf = (workload: Workload) => appInterpreter(host, workload);
  const parts = { ...host, idle: new IdleTemplates(), spawn, interpreterOf };
  return {
    name: "process",
    open: (workload, keepMs, home, owner) => new ProcessSeat(parts, workload, keepMs, home, owner),
    serve: (workload, events) => {
      if (!workload.server) throw new Error("the app has no server of its own");
      return new ProcessServer(host, workload, workload.server, events);
    },
  };
}
