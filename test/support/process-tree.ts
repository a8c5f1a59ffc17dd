import { readFileSync, readdirSync, readlinkSync } from "node:fs";

/** The parent of a process, 0 when it is gone. */
export function parentOf(pid: number): number {
  return Number(statOf(pid)[1] ?? 0);
}

/** The processes that a process has started itself. */
export function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
  } catch {
    return []; // It is gone.
  }
}

/** All processes below a process that live. */
export function descendantsOf(pid: number): number[] {
  return childrenOf(pid)
    .filter(isAlive)
    .flatMap((child) => [child, ...descendantsOf(child)]);
}

/** The process group a process is in, 0 when it is gone. */
export function groupOf(pid: number): number {
  return Number(statOf(pid)[2] ?? 0);
}

/** Whether a process lives; one that is dead and not yet buried does not. */
export function isAlive(pid: number): boolean {
  const [state = "Z"] = statOf(pid);
  return state !== "Z" && state !== "X";
}

/** What the descriptors of a process point at, by number. */
export function descriptorsOf(pid: number): Map<number, string> {
  const folder = `/proc/${pid}/fd`;
  const found = new Map<number, string>();
  for (const name of readdirSync(folder)) {
    try {
      found.set(Number(name), readlinkSync(`${folder}/${name}`));
    } catch {
      // Closed while we looked.
    }
  }
  return found;
}

/** State, parent, group and so on: what stands after the name in /proc/PID/stat. */
function statOf(pid: number): string[] {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch {
    return [];
  }
}

/** The memory a process holds. */
export function memoryBytes(pid: number): number {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kilobytes) * 1024;
}

/** Of the kernel's clock that counts processor time. */
const TICKS_PER_SECOND = 100;

/** The processor time of a process and all below it, those that have ended and been buried too. */
export function usedSeconds(pid: number): number {
  const parents = new Map<number, number>();
  for (const entry of readdirSync("/proc"))
    if (/^\d+$/.test(entry)) parents.set(Number(entry), parentOf(Number(entry)));
  const isBelow = (one: number): boolean => one === pid || (one > 1 && isBelow(parents.get(one) ?? 0));
  let ticks = 0;
  // User and system time, and the same of its buried children.
  for (const one of parents.keys())
    if (isBelow(one)) for (const part of statOf(one).slice(11, 15)) ticks += Number(part);
  return ticks / TICKS_PER_SECOND;
}
