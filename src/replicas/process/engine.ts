import type { Engine } from "../engine.ts";
import { IdleTemplates } from "./idle-templates.ts";
import { ProcessSeat } from "./seat.ts";
import type { ProcessHost } from "./seat.ts";
import { spawnPython } from "./spawn.ts";
import type { Spawn } from "./spawn.ts";

/** Runs replicas as processes of this machine; `spawn` starts them. */
export function processEngine(host: ProcessHost, spawn: Spawn = spawnPython): Engine {
  const parts = { ...host, idle: new IdleTemplates(), spawn };
  return {
    name: "process",
    open: (workload, keepMs, home, owner) => new ProcessSeat(parts, workload, keepMs, home, owner),
  };
}
