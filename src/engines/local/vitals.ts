import { readdirSync } from "node:fs";
import { isBelow, readStat } from "../../host/proc-stat.ts";
import type { ProcStat } from "../../host/proc-stat.ts";
import { ALL_THREADS } from "../engine.ts";
import type { ThreadVitals, Vitals } from "../engine.ts";
import { ROUND_MS } from "../pulse.ts";

/** Stopped by a signal or a tracer; dead and not yet buried. */
const STOPPED = "TtZX";
/** Of one process. The app decides how many it has; a look at one takes 25 µs (measured on a busy machine). */
const MAX_THREADS = 64;
/** Of all processes, in a round. */
const MAX_THREADS_A_ROUND = 512;
/** For all looks of a round: the kernel itself takes milliseconds to sum up a process of 10,000 threads. */
const MAX_MS_A_ROUND = 50;

/** Looks at processes of this machine. Nothing else goes on meanwhile, so it does little of that in a round. */
export class ProcessLook {
  readonly #proc: string;
  readonly #now: () => number;
  #roundEndsAt = Number.NEGATIVE_INFINITY;
  #threadsLeft = 0;
  #msLeft = 0;

  /** `proc` is where the kernel tells of processes. */
  constructor(proc = "/proc", now = (): number => performance.now()) {
    this.#proc = proc;
    this.#now = now;
  }

  /**
   * What the kernel tells of a process below `ancestor`. Null for any other, as an app may tell whatever pid it
   * likes, and when this round has taken too long already.
   */
  at(pid: number, ancestor: number): Vitals | null {
    const atMs = this.#now();
    this.#beginRound(atMs);
    if (this.#msLeft <= 0) return null;
    try {
      const whole = readStat(`${pid}`, this.#proc);
      if (!isBelow(whole, ancestor, this.#proc)) return null;
      const isStopped = STOPPED.includes(whole.state);
      return { atMs, isStopped, threads: isStopped ? new Map() : this.#threadsOf(pid, whole) };
    } catch {
      return null;
    } finally {
      this.#msLeft -= this.#now() - atMs;
    }
  }

  #beginRound(now: number): void {
    if (now < this.#roundEndsAt) return;
    this.#roundEndsAt = now + ROUND_MS;
    this.#threadsLeft = MAX_THREADS_A_ROUND;
    this.#msLeft = MAX_MS_A_ROUND;
  }

  /** Each thread by itself if they are few, else all as one. */
  #threadsOf(pid: number, { state, usedMs, threads }: ProcStat): Map<number, ThreadVitals> {
    if (threads > Math.min(MAX_THREADS, this.#threadsLeft))
      return new Map([[ALL_THREADS, { usedMs, isRunnable: state === "R" }]]);
    this.#threadsLeft -= threads;
    return this.#eachThread(pid);
  }

  #eachThread(pid: number): Map<number, ThreadVitals> {
    const threads = new Map<number, ThreadVitals>();
    // There may be more by now.
    for (const id of readdirSync(`${this.#proc}/${pid}/task`).slice(0, MAX_THREADS)) {
      try {
        const { state, usedMs } = readStat(`${pid}/task/${id}`, this.#proc);
        threads.set(Number(id), { usedMs, isRunnable: state === "R" });
      } catch {
        // It has just ended.
      }
    }
    return threads;
  }
}
