import { readdirSync, readFileSync } from "node:fs";

/** There are four from a replica up to the agent: keeper, template, its keeper, agent. */
const MAX_STEPS_UP = 6;

/** The kernel's data on a process or thread. */
type ProcStat = {
  /** A zombie. For a process that is its first thread; others may live on, and `threads` counts all. */
  readonly hasExited: boolean;
  readonly parent: number;
  readonly threads: number;
};

/** Reads the data on a process or thread from `folder` below `proc`. Throws if it has ended. */
export function readStat(folder: string, proc: string): ProcStat {
  const text = readFileSync(`${proc}/${folder}/stat`, "latin1");
  // The name in front is chosen by the app.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return {
    hasExited: "ZX".includes(fields[0] ?? ""),
    parent: Number(fields[1]),
    threads: Number(fields[17]),
  };
}

/** The threads of a process, as folders below `proc`; none if it has ended. */
function threadsOf(pid: number, proc: string): string[] {
  try {
    return readdirSync(`${proc}/${pid}/task`).map((thread) => `${pid}/task/${thread}`);
  } catch {
    return [];
  }
}

/** Whether a process is below `ancestor`. Throws if a process in between has ended. */
export function isBelow({ parent }: ProcStat, ancestor: number, proc: string): boolean {
  let above = parent;
  for (let step = 1; step < MAX_STEPS_UP && above !== ancestor && above > 1; step++)
    above = readStat(`${above}`, proc).parent;
  return above === ancestor;
}

type Below = {
  /** Its own children, including zombies. */
  readonly children: readonly number[];
  /** All living descendants. */
  readonly living: readonly number[];
};

/** The processes below one. A process whose parent ends meanwhile may be missed: see `isEmpty`. */
export function below(root: number): Below {
  const children = childrenOf(root);
  return { children, living: [...livingAmong(children, childrenOf)] };
}

/**
 * The same as an iterator, nearest first: visiting all processes of an app may take seconds. For a process with very many
 * threads, children of later threads are missed.
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
 * Whether a process that adopts orphans has no living descendants, from two readings. One is not enough: children of a
 * child that ended during the first reading were adopted, and are new in the second.
 */
export function isEmpty(first: Below, second: Below): boolean {
  const known = new Set(first.children);
  return (
    first.living.length === 0 && second.living.length === 0 && second.children.every((pid) => known.has(pid))
  );
}

/** The children of all threads of a process: each belongs to the thread that started it. */
function childrenOf(pid: number, maxThreads = Number.POSITIVE_INFINITY): number[] {
  return threadsOf(pid, "/proc")
    .slice(0, maxThreads)
    .flatMap((thread) => {
      try {
        const words = readFileSync(`/proc/${thread}/children`, "utf8").split(" ");
        return words.filter((word) => word !== "").map(Number);
      } catch {
        // It has ended, or the kernel does not list children.
        return [];
      }
    });
}

/** A zombie counts as ended, unless other threads of it live on. */
function hasEnded(pid: number): boolean {
  try {
    const { hasExited, threads } = readStat(`${pid}`, "/proc");
    return hasExited && threads <= 1;
  } catch {
    return true;
  }
}

/** Per process: the app decides how many there are. */
const MAX_THREADS = 64;
