import { PYTHON_DIR } from "../../config/package-files.ts";
import { appEnvironment, withFolders } from "../../host/app-environment.ts";
import type { AppLimits } from "../../host/limits/limits.ts";
import { residentBelow } from "../../host/process-tree.ts";
import { DOOR_ADDRESS, behindWalls } from "../../host/walls/outer-keeper.ts";
import type { WalledHost } from "../../host/walls/outer-keeper.ts";
import type { AppWalls } from "../../host/walls/app-walls.ts";
import { networkFields, networkVariables } from "../../host/walls/network.ts";
import { makeScratch, removeScratch } from "../../host/walls/scratch.ts";
import { describeExit, startKept } from "../../host/start-kept.ts";
import type { Kept, KeptStart } from "../../host/start-kept.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Exit, SeatEvents, Started, Workload } from "../engine.ts";
import { LAST_LINES_MS, readLogLines } from "../log-lines.ts";
import type { WorkloadFolders } from "./folders.ts";
import { endOf, hold, judge } from "./limited.ts";
import type { HeldFork, Verdict } from "./limited.ts";
import { usageOf } from "./usage.ts";
import { ProcessLook } from "./vitals.ts";
import { whatIsMissing } from "./what-is-missing.ts";

/** Reads its order, then keeps the replica or template that the order names. */
const START = `import sys; sys.path[:1] = [${JSON.stringify(PYTHON_DIR)}]; from millrace_worker.start import main; main()`;

/** Shared by all: the limit on such looks applies to the whole service. */
const look = new ProcessLook();

export type Tickets = { readonly template?: string; readonly replica: string };

/** What a project's processes live behind. */
type ProjectWalls = AppWalls & Pick<WalledHost, "user">;

/** A process that is to be. */
export type ProcessStart = {
  readonly python: string;
  readonly workload: Workload;
  readonly folders: WorkloadFolders;
  /** Null where apps live behind no walls. */
  readonly walls: ProjectWalls | null;
  /** Null where the host holds them to nothing. */
  readonly limits: AppLimits | null;
  /** Where it calls home. */
  readonly address: string;
  readonly tickets: Tickets;
};

/** A process of ours, with what it keeps. */
export type StartedProcess = Started & {
  /** How much memory it holds, as the kernel reports it; what an app says about itself does not count. */
  residentBytes(): number;
  /** What the next replica that it forks is held to; null where the host holds nobody to anything. */
  holdFork?(): HeldFork | null;
};

/** Starts a template or a replica, which calls home; what it says before that is told as lines. */
export type Spawn = (
  start: ProcessStart,
  clock: Clock,
  events: Pick<SeatEvents, "onLog" | "onError">,
) => StartedProcess;

/** Starts a keeper and, under it, a template or a replica; behind walls, if the host has some. */
export const spawnPython: Spawn = (start, clock, { onLog, onError }) => {
  const { python, workload, folders, walls, limits } = start;
  let kept: Kept;
  const verdict: Verdict = { why: limits?.refusal(folders.storage) ?? null };
  if (verdict.why !== null) return refused(verdict.why);
  const held = limits && hold(limits, workload.limits, verdict);
  let scratch: string | null = null;
  try {
    scratch = walls && makeScratch(walls.dataDir, walls.user);
    kept = startKept(
      walls && scratch !== null ? walledStart(start, walls, scratch) : plainStart(start),
      clock,
      held?.group,
    );
  } catch (error) {
    held?.group.remove();
    if (scratch !== null) void removeScratch(scratch);
    return stillborn(error as NodeJS.ErrnoException);
  }
  for (const name of ["stdout", "stderr"] as const)
    readLogLines(kept[name], name, onLog, { owner: workload.projectId }).catch(onError);
  const missing = () => whatIsMissing(python, folders);
  const ended = kept.exited.then(
    // Behind walls it is the outer keeper that starts, and its child that finds nothing there.
    ({ code, signal }): Exit => ({
      detail: describeExit(code, signal),
      initFailure: walls && code !== 0 ? missing() : null,
    }),
    (error: Error): Exit => ({ detail: error.message, initFailure: missing() }),
  );
  const exited = held ? endOf(ended, held) : ended;
  const unwatch = limits?.watch({ scratch, storage: folders.storage }, (why) => {
    verdict.why = why;
    kept.end();
  });
  void exited.then(unwatch);
  void exited.then(() => clock.after(LAST_LINES_MS, () => kept.close()));
  if (scratch !== null) void exited.then(() => removeScratch(scratch));
  return {
    exited,
    kill: () => kept.end(),
    vitals: (pid) => look.at(pid, kept.pid),
    usage: (pid) => usageOf(pid, kept.pid),
    residentBytes: () => residentBelow(kept.pid),
    ...(held && { judge: (exit: Exit) => judge(exit, held) }),
    holdFork: () => limits && { ...hold(limits, workload.limits, verdict), ancestor: kept.pid },
  };
};

function plainStart({ python, workload, folders, address, tickets }: ProcessStart): KeptStart {
  return {
    python,
    args: ["-c", START],
    cwd: folders.bundle,
    env: appEnvironment(process.env, withFolders(workload.variables, folders)),
    input: { descriptor: 0, text: `${orderOf(workload, folders, address, tickets)}\n` },
  };
}

function walledStart(
  { python, workload, folders, address, tickets }: ProcessStart,
  walls: ProjectWalls,
  scratch: string,
): KeptStart {
  // The service's own home is out of reach.
  const variables = {
    HOME: scratch,
    TMPDIR: scratch,
    ...networkVariables(workload.network, walls.network),
    ...workload.variables,
  };
  return behindWalls(walls, {
    program: python,
    args: ["-c", START],
    env: appEnvironment(process.env, withFolders(variables, folders)),
    order: orderOf(workload, folders, DOOR_ADDRESS, tickets),
    input: null,
    folders,
    scratch,
    reads: [],
    writes: [],
    network: networkFields(workload.network, walls.network),
    unixSockets: workload.unixSockets,
    home: address,
  });
}

/** What the harness is told, as one line. */
function orderOf(
  workload: Workload,
  { bundle }: WorkloadFolders,
  address: string,
  { template, replica }: Tickets,
): string {
  return JSON.stringify({
    address,
    bundle_dir: bundle,
    concurrency: workload.concurrency,
    ignore_extra: workload.ignoreExtra,
    max_result_bytes: workload.maxResultBytes,
    max_chunk_bytes: workload.maxChunkBytes,
    template_ticket: template,
    replica_ticket: replica,
  });
}

/** A process that could not be started. */
function stillborn({ code, message }: NodeJS.ErrnoException): StartedProcess {
  const detail = code === "E2BIG" ? "its secrets are too large to pass as environment variables" : message;
  return over({ detail, initFailure: null });
}

/** A process that may not be started. */
function refused(why: string): StartedProcess {
  const message = `The app cannot start: ${why}.`;
  return over({ detail: why, initFailure: { message, traceback: message } });
}

function over(exit: Exit): StartedProcess {
  const exited = Promise.resolve(exit);
  return { exited, kill: () => {}, vitals: () => null, usage: async () => null, residentBytes: () => 0 };
}
