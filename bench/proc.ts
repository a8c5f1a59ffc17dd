import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

/** Clock ticks of `/proc`: 100 a second on every Linux that Node runs on. */
const TICK_MS = 10;
const PARENT_FIELD = 3;
const USER_TIME_FIELD = 13;
const SYSTEM_TIME_FIELD = 14;

/** CPU time a process has used, all of its threads, user and system; 0 when it is gone. */
export function cpuMsOf(pid: number): number {
  const fields = statOf(pid);
  return (Number(fields[USER_TIME_FIELD] ?? 0) + Number(fields[SYSTEM_TIME_FIELD] ?? 0)) * TICK_MS;
}

/** CPU time all processes of the machine have used, and what its host took from it. */
export function machineCpuMs(): number {
  const [line = ""] = readOrEmpty("/proc/stat").split("\n", 1);
  const [user = 0, nice = 0, system = 0, , , irq = 0, softIrq = 0, steal = 0] = line
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return (user + nice + system + irq + softIrq + steal) * TICK_MS;
}

/** Memory of a process that is resident now; 0 when it is gone. */
export function residentBytesOf(pid: number): number {
  const [, kib = "0"] = /^VmRSS:\s+(\d+) kB/m.exec(readOrEmpty(`/proc/${pid}/status`)) ?? [];
  return Number(kib) * 1024;
}

/** Has the largest memory of a process counted anew from now on. */
export function resetPeakBytesOf(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}

/** The largest memory of a process that was ever resident, or since it was reset; 0 when it is gone. */
export function peakBytesOf(pid: number): number {
  const [, kib = "0"] = /^VmHWM:\s+(\d+) kB/m.exec(readOrEmpty(`/proc/${pid}/status`)) ?? [];
  return Number(kib) * 1024;
}

/** CPU time a process has used, all of its threads, to the nanosecond: ticks are too coarse for what is short. */
export function runMsOf(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => {
      const [ns = "0"] = readOrEmpty(`/proc/${pid}/task/${thread}/schedstat`).split(" ");
      return sum + Number(ns) / 1e6;
    }, 0);
  } catch {
    return 0; // It has ended.
  }
}

/** How many files a process may have open. */
export function openFilesLimitOf(pid: number): number {
  const [, limit = "0"] = /^Max open files\s+(\d+)/m.exec(readOrEmpty(`/proc/${pid}/limits`)) ?? [];
  return Number(limit);
}

/** Every process below this one. */
export function descendantsOf(pid: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const parent = Number(statOf(Number(name))[PARENT_FIELD] ?? 0);
    const siblings = children.get(parent);
    if (siblings === undefined) children.set(parent, [Number(name)]);
    else siblings.push(Number(name));
  }
  const found: number[] = [];
  const visit = (parent: number) => {
    for (const child of children.get(parent) ?? []) {
      found.push(child);
      visit(child);
    }
  };
  visit(pid);
  return found;
}

/** It and its keeper. */
const PROCESSES_OF_A_REPLICA = 2;
const REPLICA_END_MS = 30_000;
const POLL_MS = 10;

/**
 * Resolves when that many replicas of a service are gone, of the processes that it had below it. In a namespace an app
 * does not know its own process id, so it cannot tell which to wait for.
 */
export async function endOfReplicas(service: number, processes: number, replicas: number): Promise<void> {
  const deadline = performance.now() + REPLICA_END_MS;
  while (descendantsOf(service).length > processes - replicas * PROCESSES_OF_A_REPLICA) {
    if (performance.now() > deadline) throw new Error("replicas are still there after their cooldown");
    await pause(POLL_MS);
  }
}

/** The fields of `/proc/PID/stat`; the second, a name in parentheses that may contain anything, is emptied. */
function statOf(pid: number): string[] {
  return readOrEmpty(`/proc/${pid}/stat`)
    .replace(/\(.*\)/s, "()")
    .split(" ");
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
