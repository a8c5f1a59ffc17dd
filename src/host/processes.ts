import type { ChildProcess } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/** There are four from a replica up to the agent: keeper, template, its keeper, agent. */
const MAX_STEPS_UP = 6;

type ProcStat = {
  /** Its first thread has ended; others may live on, and `threads` counts all. */
  readonly hasExited: boolean;
  readonly parent: number;
  readonly threads: number;
};

/** Reads the data on a process. Throws if it has ended. */
export function readStat(pid: number): ProcStat {
  const text = readFileSync(`/proc/${pid}/stat`, "latin1");
  // The name in front is chosen by the app.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return {
    hasExited: "ZX".includes(fields[0] ?? ""),
    parent: Number(fields[1]),
    threads: Number(fields[17]),
  };
}

/**
 * Returns the process that was spawned. Throws if no descriptors were left for it: then it has no pipes, whatever its type
 * says, and tells so later by an event, which would end the service if nothing listened.
 */
export function withPipes<Child extends ChildProcess>(child: Child): Child {
  if ((child.stdio as Child["stdio"] | undefined) !== undefined) return child;
  child.once("error", () => {});
  throw new Error("no descriptors are left");
}

/** Kills a process, unless it has ended or another user owns it, as with a setuid program that an app has called. */
export function killNow(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // As above.
  }
}

/** Whether a process is below `ancestor`. Throws if a process in between has ended. */
export function isBelow({ parent }: ProcStat, ancestor: number): boolean {
  let above = parent;
  for (let step = 1; step < MAX_STEPS_UP && above !== ancestor && above > 1; step++)
    above = readStat(above).parent;
  return above === ancestor;
}

type Below = {
  /** Its own children, including zombies. */
  readonly children: readonly number[];
  readonly living: readonly number[];
};

/** The processes below one. A process whose parent ends meanwhile may be missed: see `isEmpty`. */
export function below(root: number): Below {
  const children = childrenOf(root);
  return { children, living: [...livingAmong(children, childrenOf)] };
}

/** The same as an iterator, nearest first: visiting all may take seconds. Children of threads beyond `MAX_THREADS` are missed. */
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
 * Whether a process that adopts orphans has no living descendants, from two readings. One is not enough: children of a
 * child that ended during the first reading were adopted, and are new in the second.
 */
export function isEmpty(first: Below, second: Below): boolean {
  const known = new Set(first.children);
  if (first.living.length > 0 || second.living.length > 0) return false;
  return second.children.every((pid) => known.has(pid));
}

/** The children of all threads of a process: each belongs to the thread that started it. */
function childrenOf(pid: number, maxThreads = Number.POSITIVE_INFINITY): number[] {
  const threads = ifAlive(() => readdirSync(`/proc/${pid}/task`)).slice(0, maxThreads);
  return threads.flatMap((thread) =>
    ifAlive(() => {
      const words = readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ");
      return words.filter((word) => word !== "").map(Number);
    }),
  );
}

/** Nothing if the process or thread has ended, or the kernel does not list children. */
function ifAlive<T>(read: () => T[]): T[] {
  try {
    return read();
  } catch {
    return [];
  }
}

/** A zombie counts as ended, unless other threads of it live on. */
function hasEnded(pid: number): boolean {
  try {
    const { hasExited, threads } = readStat(pid);
    return hasExited && threads <= 1;
  } catch {
    return true;
  }
}

/** Per process: the app decides how many there are. */
const MAX_THREADS = 64;
