import type { Clock } from "../../kit/clock.ts";
import type { Engine } from "../engine.ts";
import { IdleTemplates } from "./idle-templates.ts";
import { ProcessLauncher } from "./launcher.ts";

/** Runs replicas as processes of this machine, with the given interpreter. */
export function processEngine(python: string, clock: Clock): Engine {
  const idle = new IdleTemplates();
  return {
    name: "process",
    launcher: (spec, home, onLog) => new ProcessLauncher(python, clock, idle, spec, home, onLog),
  };
}
