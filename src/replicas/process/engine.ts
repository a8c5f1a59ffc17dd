import type { Engine } from "../engine.ts";
import { ProcessLauncher } from "./launcher.ts";

/** Runs replicas as processes of this machine, with the given interpreter. */
export function processEngine(python: string): Engine {
  return {
    name: "process",
    launcher: (spec, home, onLog) => new ProcessLauncher(python, spec, home, onLog),
  };
}
