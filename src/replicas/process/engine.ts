import type { Clock } from "../../kit/clock.ts";
import type { Engine } from "../engine.ts";
import { IdleTemplates } from "./idle-templates.ts";
import { ProcessLauncher } from "./launcher.ts";
import { spawnPython } from "./spawn.ts";
import type { Spawn } from "./spawn.ts";

/** Runs replicas as processes of this machine, with the given interpreter; `spawn` starts them. */
export function processEngine(python: string, clock: Clock, spawn: Spawn = spawnPython): Engine {
  const parts = { python, clock, idle: new IdleTemplates(), spawn };
  return {
    name: "process",
    launcher: (spec, home, events) => new ProcessLauncher(parts, spec, home, events),
  };
}
