import { readFileSync } from "node:fs";
import { readStat, threadsOf } from "./proc-stat.ts";

type Below = {
  /** Its own children, including zombies. */
  readonly children: readonly number[];
  /** Of its children, theirs and so on, those that have not ended. */
  readonly living: readonly number[];
};

/** The processes below one. A process whose parent ends while this looks may be missed: see `isEmpty`. */
export function below(root: number): Below {
  const children = childrenOf(root);
  return { children, living: [...livingAmong(children, childrenOf)] };
}

/**
 * The same one by one, the nearest first, for those who have to stop somewhere: to look at all that an app has started
 * may take seconds. Children of a process's later threads are missed where it has very many.
 */
export function nearestBelow(root: number): Iterable<number> {
  const some = (pid: number): number[] => childrenOf(pid, MAX_THREADS);
  return livingAmong(some(root), some);
}

function* livingAmong(pids: readonly number[], children: (pid: number) => number[]): Generator<number> {
  const queue = [...pids];
  for (let pid = queue.shift(); pid !== undefined; pid = queue.shift()) {
    if (hasEnded(pid)) continue;
    yield pid;
    queue.push(...children(pid));
  }
}

/**
 * Whether nothing lives below a process that adopts orphans, from two looks at it. One is not enough: a child that
 * ended during the first look left its own to the process above, and they are new children in the second.
 */
export function isEmpty(first: Below, second: Below): boolean {
  const known = new Set(first.children);
  return (
    first.living.length === 0 && second.living.length === 0 && second.children.every((pid) => known.has(pid))
  );
}

/** The children of all its threads: a process belongs to the thread that started it, and threads come and go as the app likes. */
function childrenOf(pid: number, maxThreads = Number.POSITIVE_INFINITY): number[] {
  return threadsOf(pid, "/proc")
    .slice(0, maxThreads)
    .flatMap((thread) => {
      try {
        const words = readFileSync(`/proc/${thread}/children`, "utf8").split(" ");
        return words.filter((word) => word !== "").map(Number);
      } catch {
        // It has ended; or the kernel does not tell of children, and then those above are killed alone.
        return [];
      }
    });
}

/** A zombie counts as ended, unless it is a first thread that has left others behind. */
function hasEnded(pid: number): boolean {
  try {
    const { hasExited, threads } = readStat(`${pid}`, "/proc");
    return hasExited && threads <= 1;
  } catch {
    return true;
  }
}

/** Of one process; each costs a look, and the app decides how many there are. */
const MAX_THREADS = 64;
