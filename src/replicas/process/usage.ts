import { readFileSync, readdirSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
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
  readonly threads: number;
};

/**
 * What the process of a replica uses, with all below its keeper: whatever the replica started and let go of is there.
 * Null for a process that is not below `ancestor`, as an app may tell whatever pid it likes, and for one that has
 * ended.
 *
 * Everybody else has a turn before each process. To read one takes 50 µs like this, and eight times the processor
 * time if the reads themselves are left to other threads (measured on a busy machine).
 */
export async function usageOf(pid: number, ancestor: number, proc = "/proc"): Promise<Usage | null> {
  await setImmediate();
  try {
    const { parent } = statOf(proc, pid);
    return isBelow(proc, parent, ancestor) ? await usageBelow(proc, parent) : null;
  } catch {
    return null;
  }
}

function isBelow(proc: string, parent: number, ancestor: number): boolean {
  let above = parent;
  for (let step = 1; step < MAX_STEPS_UP && above !== ancestor && above > 1; step++)
    above = statOf(proc, above).parent;
  return above === ancestor;
}

async function usageBelow(proc: string, keeper: number): Promise<Usage> {
  // The keeper does nothing itself, but has the time of those that it adopted and buried. Its memory is our affair.
  const top = statOf(proc, keeper);
  let { cpuMs } = top;
  let residentBytes = 0;
  const queue = childrenOf(proc, keeper, top);
  for (let place = 0; place < Math.min(queue.length, MAX_PROCESSES); place++) {
    const pid = queue[place] as number;
    await setImmediate();
    try {
      const stat = statOf(proc, pid);
      cpuMs += stat.cpuMs;
      residentBytes += stat.residentBytes;
      queue.push(...childrenOf(proc, pid, stat));
    } catch {
      // It has just ended.
    }
  }
  return { cpuMs, residentBytes };
}

/** Those of all its threads, as a process belongs to the thread that started it; where there are many, of the first. */
function childrenOf(proc: string, pid: number, { threads }: Stat): number[] {
  const ids = threads > MAX_THREADS ? [`${pid}`] : readdirSync(`${proc}/${pid}/task`);
  return ids.flatMap((id) => {
    try {
      const words = readFileSync(`${proc}/${pid}/task/${id}/children`, "latin1").split(" ");
      return words.filter((word) => word !== "").map(Number);
    } catch {
      return []; // The thread has just ended.
    }
  });
}

function statOf(proc: string, pid: number): Stat {
  const text = readFileSync(`${proc}/${pid}/stat`, "latin1");
  // The name in front is the app's own, and may hold anything.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return {
    parent: Number(fields[1]),
    cpuMs: ticks * TICK_MS,
    residentBytes: Number(fields[21]) * PAGE_BYTES,
    threads: Number(fields[17]),
  };
}
