import type { ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../kit/clock.ts";
import { below, isEmpty } from "../../host/processes.ts";

/** How long a keeper has to kill what is below it before that is done from here. */
export const KEEPER_GRACE_MS = 5_000;
/** A killed process takes a moment to disappear. */
const PAUSE_MS = 10;
/** Two seconds: past that something forks faster than it is killed, or the kernel holds it. */
const MAX_ROUNDS = 200;

/**
 * Gives a function that ends a keeper and everything below it, whether the keeper helps or not: an app can stop
 * the processes above it, and a process that is stopped takes no signal but SIGCONT and SIGKILL.
 */
export function agentEnd(child: ChildProcess, exited: Promise<unknown>, clock: Clock): () => void {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    child.kill("SIGTERM");
    child.kill("SIGCONT");
    const timer = clock.after(KEEPER_GRACE_MS, () => void killTree(child));
    const cancel = (): void => timer.cancel();
    exited.then(cancel, cancel);
  };
}

/**
 * The keeper goes last: while it lives, whatever loses its parent becomes its child and is found there. Stopped, so
 * that it buries nobody meanwhile: from a list of children that grows shorter while it is read, the kernel leaves
 * some out.
 */
async function killTree(keeper: ChildProcess): Promise<void> {
  if (!isOver(keeper)) keeper.kill("SIGSTOP");
  let before = below(keeper.pid ?? 0);
  for (let round = 0; round < MAX_ROUNDS && !isOver(keeper); round++) {
    for (const pid of before.living) kill(pid);
    await sleep(PAUSE_MS);
    const now = below(keeper.pid ?? 0);
    if (isEmpty(before, now)) break;
    before = now;
  }
  if (!isOver(keeper)) keeper.kill("SIGKILL");
}

function isOver({ pid, exitCode, signalCode }: ChildProcess): boolean {
  return pid === undefined || exitCode !== null || signalCode !== null;
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // Gone, or owned by another user: a setuid program that the app has called.
  }
}
