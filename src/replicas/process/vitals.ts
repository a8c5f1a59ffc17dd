import { readFileSync, readdirSync } from "node:fs";
import type { ThreadVitals, Vitals } from "../engine.ts";

/** The kernel tells processor time in hundredths of a second, whatever it counts in itself. */
const TICK_MS = 10;
/** Stopped by a signal or a tracer; dead and not yet buried. */
const STOPPED = "TtZX";

/** What the kernel tells of a process of this machine; null for one that it does not know. */
export function processVitals(pid: number): Vitals | null {
  const atMs = performance.now();
  try {
    const isStopped = STOPPED.includes(stat(`/proc/${pid}`).state);
    return { atMs, isStopped, threads: isStopped ? new Map() : threadsOf(pid) };
  } catch {
    return null;
  }
}

function threadsOf(pid: number): Map<number, ThreadVitals> {
  const threads = new Map<number, ThreadVitals>();
  for (const id of readdirSync(`/proc/${pid}/task`)) {
    try {
      const { state, ticks } = stat(`/proc/${pid}/task/${id}`);
      threads.set(Number(id), { usedMs: ticks * TICK_MS, isRunnable: state === "R" });
    } catch {
      // It has just ended.
    }
  }
  return threads;
}

function stat(folder: string): { readonly state: string; readonly ticks: number } {
  const text = readFileSync(`${folder}/stat`, "latin1");
  // The name in front is the app's own, and may hold anything.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return { state: fields[0] ?? "", ticks: Number(fields[11]) + Number(fields[12]) };
}
