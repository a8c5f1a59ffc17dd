import { type AppLimits, describeRunOut, type LimitGroup, type Limits } from "../../host/limits/limits.ts";
import { isBelow, readStat } from "../../host/processes.ts";
import type { Questions } from "../agent/agent-messages.ts";
import { type Exit, type Started, describeExit } from "../engine.ts";

/** Why the agent ended a whole seat, if it did; for people. */
export type Verdict = { why: string | null };

export type Held = { readonly group: LimitGroup; readonly limits: Limits; readonly verdict: Verdict };

export type HeldFork = Held & {
  /** The process of ours that every fork is below. */
  readonly ancestor: number;
  /** Translates a process's own id to the id on this machine; 0 for none. Absent if both are the same. */
  readonly hostPid?: (pid: number) => number;
};

/** Makes a group; null if the kernel gives none. After a failure, `add` rejects: the process must not run without limits. */
export function hold(host: AppLimits, limits: Limits, verdict: Verdict): Held | null {
  try {
    const group = host.group(limits);
    return group && { group, limits, verdict };
  } catch (error) {
    const group = { add: () => Promise.reject(error), ranOut: () => false, remove: () => {} };
    return { group, limits, verdict };
  }
}

/** A fork with limits of its own. Until its process is in its group, it has those of its template. */
export function limited(forked: Started, held: HeldFork): Started {
  return {
    ...forked,
    exited: endOf(forked.exited, held),
    confine: (pid) => confine(pid, held),
    judge: (exit) => judge(exit, held),
  };
}

async function confine(told: number, { group, ancestor, hostPid }: HeldFork): Promise<void> {
  const pid = hostPid ? hostPid(told) : told;
  let isOwn: boolean;
  try {
    isOwn = isBelow(readStat(pid), ancestor);
  } catch {
    return; // It has ended.
  }
  // Without an agent that reports it, an app could name any pid.
  if (!isOwn) throw new Error(`a replica says that its process is ${told}, which is none of its app`);
  await group.add(pid);
}

/** How a process of a group ended; its group ends with it. */
export async function endOf(exited: Promise<Exit>, held: Held): Promise<Exit> {
  const exit = judge(await exited, held);
  held.group.remove();
  return exit;
}

/** Adds to the exit of a process in a group whether its limits ended it. */
export function judge(exit: Exit, { group, limits, verdict }: Held): Exit {
  // First the current reason: its memory may have run out long ago, in a child.
  if (verdict.why !== null) return { ...exit, detail: verdict.why };
  return group.ranOut() ? { ...exit, detail: describeRunOut(limits), isOutOfMemory: true } : exit;
}

const KILLED = describeExit(null, "SIGKILL");

/** Explains the exits of forks: the exit code does not say that a fork was ended for its memory. */
export function explainer(limits: Limits, verdict: Verdict, questions: Questions) {
  let known = 0;
  return async (exit: Exit): Promise<Exit> => {
    if (verdict.why !== null) return { ...exit, detail: verdict.why };
    if (exit.detail !== KILLED || (await questions.memoryDeaths()) <= known) return exit;
    known += 1;
    return { ...exit, detail: describeRunOut(limits), isOutOfMemory: true };
  };
}
