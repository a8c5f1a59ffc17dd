import { readFileSync, readdirSync } from "node:fs";

/** The processes below one that have not ended, its children, theirs and so on. */
export function livingBelow(root: number): number[] {
  const found: number[] = [];
  const queue = childrenOf(root);
  for (let pid = queue.shift(); pid !== undefined; pid = queue.shift()) {
    if (hasEnded(pid)) continue;
    found.push(pid);
    queue.push(...childrenOf(pid));
  }
  return found;
}

/** Of all its threads: a process belongs to the thread that started it. */
function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8")
        .split(" ")
        .filter((word) => word !== "")
        .map(Number),
    );
  } catch {
    // It has ended; or the kernel does not tell of children, and then those above are killed alone.
    return [];
  }
}

/** Dead and not yet buried counts as ended. */
function hasEnded(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return "ZX".includes(stat.charAt(stat.lastIndexOf(")") + 2));
  } catch {
    return true;
  }
}
