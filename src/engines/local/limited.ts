import { type AppLimits, describeRunOut, type LimitGroup, type Limits } from "../../host/limits/limits.ts";
import { isBelow, readStat } from "../../host/processes.ts";
import type { Questions } from "../agent/agent-messages.ts";
import { type Exit, type Started, describeExit } from "../engine.ts";

/** Why all of a seat was ended, if it was; for people. */
export type Verdict = { why: string | null };

export type Held = { readonly group: LimitGroup; readonly limits: Limits; readonly verdict: Verdict };

export type HeldFork = Held & {
  /** The process of ours that every fork is below. */
  readonly ancestor: number;
  /** What this machine calls a process that knows itself by that number; 0 for none. Absent where both are the same. */
  readonly hostPid?: (pid: number) => number;
};

/** Makes a group; null where the kernel gives none. If it fails, whatever is put into it ends: it must not run without limits. */
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
  // An app may tell whatever pid it likes, where no agent tells it.
  if (!isOwn) throw new Error(`a replica says that its process is ${told}, which is none of its app`);
  await group.add(pid);
}

/** How a process of a group ended; its group ends with it. */
export async function endOf(exited: Promise<Exit>, held: Held): Promise<Exit> {
  const exit = judge(await exited, held);
  held.group.remove();
  return exit;
}

/** How a process of a group ended, if its limits have ended it. */
export function judge(exit: Exit, { group, limits, verdict }: Held): Exit {
  // First: what it was ended for now, while its memory may have run out long ago, in a child that it did without.
  if (verdict.why !== null) return { ...exit, detail: verdict.why };
  return group.ranOut() ? { ...exit, detail: describeRunOut(limits), isOutOfMemory: true } : exit;
}

const KILLED = describeExit(null, "SIGKILL");

/** Explains the ends of forks: if an agent or the kernel ends one of them for its memory, the exit code does not say so. */
export function explainer(
  limits: Limits,
  verdict: Verdict,
  questions: Questions,
): (exit: Exit) => Promise<Exit> {
  let known = 0;
  return async (exit) => {
    if (verdict.why !== null) return { ...exit, detail: verdict.why };
    if (exit.detail !== KILLED || (await questions.memoryDeaths()) <= known) return exit;
    known += 1;
    return { ...exit, detail: describeRunOut(limits), isOutOfMemory: true };
  };
}
