import { readFileSync, rmdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** A killed process takes a moment to leave its group. */
const PAUSE_MS = 20;
/** Two seconds: what is left then goes at the next start. */
const MAX_ROUNDS = 100;

/** Sets one value of a group. */
export function setValue(folder: string, file: string, value: string | number): void {
  writeFileSync(path.join(folder, file), String(value));
}

/** The processes in a group; none if it does not exist. */
export function processesIn(folder: string): number[] {
  try {
    const words = readFileSync(path.join(folder, "cgroup.procs"), "latin1").split("\n");
    // 0 is a process that cannot be seen from here.
    return words.map(Number).filter((pid) => pid > 0);
  } catch {
    return [];
  }
}

/** A number that a group counts, in a file of lines such as `oom_kill 2`; 0 if it cannot be read. */
export function countIn(folder: string, file: string, name: string): number {
  try {
    const text = readFileSync(path.join(folder, file), "latin1");
    const line = text.split("\n").find((each) => each.startsWith(`${name} `));
    return Number(line?.slice(name.length + 1) ?? 0);
  } catch {
    return 0;
  }
}

/** Ends every process in a group and removes it; says whether it is gone. */
export async function removeGroup(folder: string): Promise<boolean> {
  for (let round = 0; round < MAX_ROUNDS; round++) {
    try {
      rmdirSync(folder);
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ENOENT") return true;
      if (code !== "EBUSY") return false;
    }
    for (const pid of processesIn(folder)) kill(pid);
    await sleep(PAUSE_MS);
  }
  return false;
}

function kill(pid: number): void {
  try {
    if (pid !== process.pid) process.kill(pid, "SIGKILL");
  } catch {
    // It has just ended.
  }
}
