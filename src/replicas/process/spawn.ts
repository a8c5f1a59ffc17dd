import { PYTHON_DIR } from "../../config/package-files.ts";
import { appEnvironment, withFolders } from "../../host/app-environment.ts";
import { residentBelow } from "../../host/process-tree.ts";
import { describeExit, startKept } from "../../host/start-kept.ts";
import type { Kept } from "../../host/start-kept.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Exit, SeatEvents, Started, Workload } from "../engine.ts";
import { LAST_LINES_MS, readLogLines } from "../log-lines.ts";
import type { WorkloadFolders } from "./folders.ts";
import { usageOf } from "./usage.ts";
import { ProcessLook } from "./vitals.ts";
import { whatIsMissing } from "./what-is-missing.ts";

/** Reads its order, then keeps the replica or template that the order names. */
const START = `import sys; sys.path[:1] = [${JSON.stringify(PYTHON_DIR)}]; from millrace_worker.start import main; main()`;

/** Shared by all: the limit on such looks applies to the whole service. */
const look = new ProcessLook();

export type Tickets = { readonly template?: string; readonly replica: string };

/** A process that is to be. */
export type ProcessStart = {
  readonly python: string;
  readonly workload: Workload;
  readonly folders: WorkloadFolders;
  /** Where it calls home. */
  readonly address: string;
  readonly tickets: Tickets;
};

/** A process of ours, with what it keeps. */
export type StartedProcess = Started & {
  /** How much memory it holds, as the kernel reports it; what an app says about itself does not count. */
  residentBytes(): number;
};

/** Starts a template or a replica, which calls home; what it says before that is told as lines. */
export type Spawn = (
  start: ProcessStart,
  clock: Clock,
  events: Pick<SeatEvents, "onLog" | "onError">,
) => StartedProcess;

/** Starts a keeper and, under it, a template or a replica. */
export const spawnPython: Spawn = (
  { python, workload, folders, address, tickets },
  clock,
  { onLog, onError },
) => {
  const order = {
    address,
    bundle_dir: folders.bundle,
    concurrency: workload.concurrency,
    ignore_extra: workload.ignoreExtra,
    max_result_bytes: workload.maxResultBytes,
    max_chunk_bytes: workload.maxChunkBytes,
    template_ticket: tickets.template,
    replica_ticket: tickets.replica,
  };
  const start = {
    python,
    args: ["-c", START],
    cwd: folders.bundle,
    env: appEnvironment(process.env, withFolders(workload.variables, folders)),
    input: { descriptor: 0, text: `${JSON.stringify(order)}\n` },
  } as const;
  let kept: Kept;
  try {
    kept = startKept(start, clock);
  } catch (error) {
    return stillborn(error as NodeJS.ErrnoException);
  }
  for (const name of ["stdout", "stderr"] as const)
    readLogLines(kept[name], name, onLog, { owner: workload.projectId }).catch(onError);
  const exited = kept.exited.then(
    ({ code, signal }): Exit => ({ detail: describeExit(code, signal), initFailure: null }),
    (error: Error): Exit => ({ detail: error.message, initFailure: whatIsMissing(python, folders) }),
  );
  void exited.then(() => clock.after(LAST_LINES_MS, () => kept.close()));
  return {
    exited,
    kill: () => kept.end(),
    vitals: (pid) => look.at(pid, kept.pid),
    usage: (pid) => usageOf(pid, kept.pid),
    residentBytes: () => residentBelow(kept.pid),
  };
};

/** A process that could not be started. */
function stillborn({ code, message }: NodeJS.ErrnoException): StartedProcess {
  const detail = code === "E2BIG" ? "its secrets are too large to pass as environment variables" : message;
  const exited = Promise.resolve({ detail, initFailure: null });
  return { exited, kill: () => {}, vitals: () => null, usage: async () => null, residentBytes: () => 0 };
}
