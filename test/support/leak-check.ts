import { readFileSync, readdirSync, readlinkSync } from "node:fs";

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

/** Fails when a process is left; a moment's grace for the kernel to bury the killed. */
export async function assertNothingLeft(directory: string): Promise<void> {
  const deadline = performance.now() + 2_000;
  for (;;) {
    const left = processesIn(directory);
    if (left.length === 0) return;
    if (performance.now() > deadline) {
      throw new Error(
        `left behind: ${left.map(({ pid, command }) => `${pid} ${command.slice(0, 80)}`).join("; ")}`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
