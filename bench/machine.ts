import { cpus, loadavg, release, totalmem, type } from "node:os";
import { runTool } from "./processes.ts";

export type Machine = {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGb: number;
  readonly system: string;
  readonly node: string;
  readonly python: string;
  /** Processes that wanted a core in the minute before the bench: what it had to share the machine with. */
  readonly loadBefore: number;
};

/** What the figures of a run depend on. */
export async function describeMachine(): Promise<Machine> {
  const cores = cpus();
  const [loadBefore = 0] = loadavg();
  return {
    cpu: cores[0]?.model.trim() ?? "unknown",
    cores: cores.length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()}`,
    node: process.version,
    python: await runTool("python3", ["-c", "import platform; print(platform.python_version())"]),
    loadBefore,
  };
}

/** The machine for the head of a table, with a warning when it was busy with other things. */
export function machineLines(machine: Machine): string[] {
  const { cpu, cores, memoryGb, system, node, python, loadBefore } = machine;
  const lines = [`${cores} × ${cpu}, ${memoryGb} GB, ${system}, Node ${node}, Python ${python}`];
  if (loadBefore > cores / 2) {
    lines.push(
      `busy machine: load ${loadBefore.toFixed(1)} on ${cores} cores before the start; repeat when idle`,
    );
  }
  return lines;
}
