import { readFileSync, readdirSync, readlinkSync, rmdirSync } from "node:fs";
import { until } from "./until.ts";

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

/** So many looks are a matter of seconds: whoever reads along is told what the wait is for. */
const LOOKS_BEFORE_A_WORD = 100;

/** Waits until no process is left; the killed need a moment to be buried. The one deadline is the test's. */
export async function assertNothingLeft(directory: string): Promise<void> {
  let looks = 0;
  await until(`no process works in ${directory}`, () => {
    const left = processesIn(directory);
    looks += 1;
    if (looks === LOOKS_BEFORE_A_WORD && left.length > 0) {
      const lines = left.map(({ pid, command }) => `  ${pid} ${command.slice(0, 200)}\n`);
      process.stderr.write(`\nleft behind in ${directory}:\n${lines.join("")}`);
    }
    return left.length === 0;
  });
  for (const place of [directory, `${directory}/data`]) removeGroups(place);
}

/** Empty control groups of services that were killed, which the next start on their directory would remove. */
function removeGroups(dataDir: string): void {
  try {
    const roots = JSON.parse(readFileSync(`${dataDir}/limit-groups.json`, "utf8")) as string[];
    for (const root of roots) {
      for (const entry of readdirSync(root, { withFileTypes: true }))
        if (entry.isDirectory()) rmdirSync(`${root}/${entry.name}`);
      rmdirSync(root);
    }
  } catch {
    // It was stopped in an orderly way, or had none.
  }
}
