import { hiddenPython } from "../../host/app-python.ts";
import type { AppPython } from "../../host/app-python.ts";
import type { AppLimits } from "../../host/limits/limits.ts";
import { describeExit, startKept } from "../../host/start-kept.ts";
import type { Kept, KeptStart } from "../../host/start-kept.ts";
import type { AppWalls } from "../../host/walls/app-walls.ts";
import type { WalledHost } from "../../host/walls/outer-keeper.ts";
import { makeScratch, removeScratch } from "../../host/walls/scratch.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Exit, SeatEvents, Workload } from "../engine.ts";
import { LAST_LINES_MS, readLogLines } from "../log-lines.ts";
import type { WorkloadFolders } from "./folders.ts";
import { endOf, hold } from "./limited.ts";
import type { Held, Verdict } from "./limited.ts";
import { cannotStart, whatIsMissing } from "./what-is-missing.ts";

/** What a project's processes live behind. */
export type ProjectWalls = AppWalls & Pick<WalledHost, "user">;

/** Something of an app that is to be started. */
export type HeldStart = {
  readonly python: AppPython;
  readonly workload: Workload;
  readonly folders: WorkloadFolders;
  /** Null where apps live behind no walls. */
  readonly walls: ProjectWalls | null;
  /** Null where the host holds them to nothing. */
  readonly limits: AppLimits | null;
};

/** How it starts: as it is, or behind walls with a scratch folder of its own. */
export type Ways = {
  plain(): KeptStart;
  walled(walls: ProjectWalls, scratch: string): KeptStart;
};

/** What was started, and what it is held to; null for nothing. */
export type HeldProcess = {
  readonly kept: Kept;
  readonly exited: Promise<Exit>;
  readonly held: Held | null;
  readonly verdict: Verdict;
};

/**
 * Starts a process of an app under a keeper, within its limits; what it says on its own output is told as lines. Gives
 * how it has ended where it could not or may not start.
 */
export function startHeld(
  { python, workload, folders, walls, limits }: HeldStart,
  ways: Ways,
  clock: Clock,
  { onLog, onError }: Pick<SeatEvents, "onLog" | "onError">,
): HeldProcess | Exit {
  const verdict: Verdict = { why: limits?.refusal(folders.storage) ?? null };
  if (verdict.why !== null) return refused(verdict.why);
  const held = limits && hold(limits, workload.limits, verdict);
  let kept: Kept;
  let scratch: string | null = null;
  try {
    scratch = walls && makeScratch(walls.dataDir, walls.user);
    const start = walls && scratch !== null ? ways.walled(walls, scratch) : ways.plain();
    kept = startKept(start, clock, held?.group);
  } catch (error) {
    held?.group.remove();
    if (scratch !== null) void removeScratch(scratch);
    return stillborn(error as NodeJS.ErrnoException);
  }
  for (const name of ["stdout", "stderr"] as const)
    readLogLines(kept[name], name, onLog, { owner: workload.projectId }).catch(onError);
  const missing = () => whatIsMissing(python.program, folders);
  const hidden = (code: number | null) => {
    const why = hiddenPython(python, code, walls);
    return why === null ? null : cannotStart(why);
  };
  const ended = kept.exited.then(
    // Behind walls it is the outer keeper that starts, and its child that finds nothing there.
    ({ code, signal }): Exit => ({
      detail: describeExit(code, signal),
      initFailure: walls && code !== 0 ? (missing() ?? hidden(code)) : null,
    }),
    (error: Error): Exit => ({ detail: error.message, initFailure: missing() }),
  );
  const exited = held ? endOf(ended, held) : ended;
  const written = { scratch: scratch === null ? [] : [scratch], storage: folders.storage };
  const unwatch = limits?.watch(written, (why) => {
    verdict.why = why;
    kept.end();
  });
  void exited.then(unwatch);
  void exited.then(() => clock.after(LAST_LINES_MS, () => kept.close()));
  if (scratch !== null) void exited.then(() => removeScratch(scratch));
  return { kept, exited, held, verdict };
}

/** A process that could not be started. */
function stillborn({ code, message }: NodeJS.ErrnoException): Exit {
  const detail = code === "E2BIG" ? "its secrets are too large to pass as environment variables" : message;
  return { detail, initFailure: null };
}

/** A process that may not be started. */
function refused(why: string): Exit {
  const message = `The app cannot start: ${why}.`;
  return { detail: why, initFailure: { message, traceback: message } };
}
