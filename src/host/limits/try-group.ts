import { spawn } from "node:child_process";
import { once } from "node:events";
import { readStat } from "../processes.ts";
import type { Hierarchy } from "./hierarchy.ts";

/** Limits that any kernel accepts. */
const SOME = { memoryBytes: 64 * 1024 * 1024, cpus: 0.5, cpuShare: 1 };

/** Tries to make, limit, enter and remove a group, with a waiting process. Throws if that fails. */
export async function tryGroup(hierarchy: Hierarchy): Promise<void> {
  const group = hierarchy.make(SOME);
  const child = spawn("/bin/sh", ["-c", "read _"], { stdio: ["pipe", "ignore", "ignore"], env: {} });
  const ended = once(child, "exit");
  // The wait for the start below reports the error.
  ended.catch(() => {});
  try {
    await once(child, "spawn");
    const pid = child.pid ?? 0;
    await group.add(pid);
    if (!group.holds(pid)) throw new Error("a process that was put into a group is not in it");
  } finally {
    child.stdin.destroy();
    await ended;
    await group.removed();
  }
}

/** Whether a process is this service, the shell that restarts it, or started by one of them. */
export function isOurs(pid: number): boolean {
  const own = [process.pid, process.ppid];
  if (own.includes(pid)) return true;
  try {
    return own.includes(readStat(pid).parent);
  } catch {
    return true; // It has ended.
  }
}
