import { readFile, readdir } from "node:fs/promises";
import type { Usage } from "../engine.ts";

/** The kernel tells processor time in hundredths of a second, whatever it counts in itself. */
const TICK_MS = 10;
const PAGE_BYTES = 4096;
/** There are three from a replica up to what we started: its keeper, the template, the template's keeper. */
const MAX_STEPS_UP = 6;
/** Of one replica, and of one process: the app decides how many there are. */
const MAX_PROCESSES = 64;
const MAX_THREADS = 64;

type Stat = {
  readonly parent: number;
  /** Its own, and of those below it that have ended. */
  readonly cpuMs: number;
  readonly residentBytes: number;
};

/**
 * What the process of a replica uses, with all below its keeper: whatever the replica started and let go of is there.
 * Null for a process that is not below `ancestor`, as an app may tell whatever pid it likes, and for one that has
 * ended. Read in the background, as the kernel takes its time over a process of many threads.
 */
export async function usageOf(pid: number, ancestor: number, proc = "/proc"): Promise<Usage | null> {
  try {
    const { parent } = await statOf(proc, pid);
    if (!(await isBelow(proc, parent, ancestor))) return null;
    return await usageBelow(proc, parent);
  } catch {
    return null;
  }
}

async function isBelow(proc: string, parent: number, ancestor: number): Promise<boolean> {
  let above = parent;
  for (let step = 1; step < MAX_STEPS_UP && above !== ancestor && above > 1; step++)
    above = (await statOf(proc, above)).parent;
  return above === ancestor;
}

async function usageBelow(proc: string, keeper: number): Promise<Usage> {
  // Of the keeper only what it has buried counts in the end: it does nothing itself, and its memory is ours.
  let { cpuMs } = await statOf(proc, keeper);
  let residentBytes = 0;
  const queue = await childrenOf(proc, keeper);
  for (let place = 0; place < Math.min(queue.length, MAX_PROCESSES); place++) {
    const pid = queue[place] as number;
    try {
      const stat = await statOf(proc, pid);
      cpuMs += stat.cpuMs;
      residentBytes += stat.residentBytes;
      queue.push(...(await childrenOf(proc, pid)));
    } catch {
      // It has just ended.
    }
  }
  return { cpuMs, residentBytes };
}

/** Of all its threads: a process belongs to the thread that started it. */
async function childrenOf(proc: string, pid: number): Promise<number[]> {
  const children: number[] = [];
  for (const thread of (await readdir(`${proc}/${pid}/task`)).slice(0, MAX_THREADS)) {
    const words = await readFile(`${proc}/${pid}/task/${thread}/children`, "latin1").catch(() => "");
    for (const word of words.split(" ")) if (word !== "") children.push(Number(word));
  }
  return children;
}

async function statOf(proc: string, pid: number): Promise<Stat> {
  const text = await readFile(`${proc}/${pid}/stat`, "latin1");
  // The name in front is the app's own, and may hold anything.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return {
    parent: Number(fields[1]),
    cpuMs: ticks * TICK_MS,
    residentBytes: Number(fields[21]) * PAGE_BYTES,
  };
}
