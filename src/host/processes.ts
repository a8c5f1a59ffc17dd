import { readdirSync, readFileSync } from "node:fs";

/** The kernel reports processor time in hundredths of a second, whatever it uses internally. */
const TICK_MS = 10;
const PAGE_BYTES = 4096;
/** Of the kernel's flags of a task, and of its pending signals. */
const PF_EXITING = 0x4;
const SIGKILL_PENDING = 1 << (9 - 1);
/** There are four from a replica up to what we started: its keeper, the template, its keeper, the agent. */
const MAX_STEPS_UP = 6;

/** What the kernel tells of a process, or of one of its threads. */
type ProcStat = {
  /** One letter: R is running, T is stopped, Z is a zombie. */
  readonly state: string;
  /** A zombie. Of a process this is its first thread, and others may live on: `threads` counts it and them. */
  readonly hasExited: boolean;
  readonly parent: number;
  /** Processor time. That of a process is the sum of its threads'. */
  readonly usedMs: number;
  /** That of its children that have ended, and of theirs. */
  readonly buriedMs: number;
  readonly residentBytes: number;
  /** It was killed, or exits by itself; freeing a lot of memory takes a while. */
  readonly isEnding: boolean;
  readonly threads: number;
  /** When it began, counted by the kernel since the machine started. */
  readonly startedTicks: number;
};

/** Reads about a process or a thread: `folder` is where below `proc` the kernel tells of it. Throws if it has ended. */
export function readStat(folder: string, proc: string): ProcStat {
  const text = readFileSync(`${proc}/${folder}/stat`, "latin1");
  // The name in front is the app's own, and may hold anything.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const state = fields[0] ?? "";
  return {
    state,
    hasExited: "ZX".includes(state),
    parent: Number(fields[1]),
    usedMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS,
    buriedMs: (Number(fields[13]) + Number(fields[14])) * TICK_MS,
    residentBytes: Number(fields[21]) * PAGE_BYTES,
    isEnding: (Number(fields[6]) & PF_EXITING) !== 0 || (Number(fields[28]) & SIGKILL_PENDING) !== 0,
    threads: Number(fields[17]),
    startedTicks: Number(fields[19]),
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

/** Whether a process is below `ancestor`: an app can claim any pid. Throws if a process in between has ended. */
export function isBelow({ parent }: ProcStat, ancestor: number, proc: string): boolean {
  let above = parent;
  for (let step = 1; step < MAX_STEPS_UP && above !== ancestor && above > 1; step++)
    above = readStat(`${above}`, proc).parent;
  return above === ancestor;
}

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
