import { readFileSync, readdirSync, readlinkSync } from "node:fs";

/** Half a minute of looks, longer where each takes its time: what is still there then was not ended. */
const MAX_LOOKS = 300;
const LONGEST_PAUSE_MS = 100;

/** The living processes that work in a directory or below it: what a service started and did not end. */
export function processesIn(directory: string): { pid: number; command: string }[] {
  const found: { pid: number; command: string }[] = [];
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry) || Number(entry) === process.pid) continue;
    try {
      if (!`${readlinkSync(`/proc/${entry}/cwd`)}/`.startsWith(`${directory}/`)) continue;
      const command = readFileSync(`/proc/${entry}/cmdline`, "utf8").replaceAll("\0", " ");
      if (command !== "") found.push({ pid: Number(entry), command });
    } catch {
      // It ended while we looked, or is somebody else's.
    }
  }
  return found;
}

/** Fails when a process is left; with grace for a busy machine to bury the killed. */
export async function assertNothingLeft(directory: string): Promise<void> {
  for (let looks = 1; ; looks += 1) {
    const left = processesIn(directory);
    if (left.length === 0) return;
    if (looks === MAX_LOOKS) {
      throw new Error(
        `left behind: ${left.map(({ pid, command }) => `${pid} ${command.slice(0, 80)}`).join("; ")}`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, Math.min(10 * looks, LONGEST_PAUSE_MS)));
  }
}
