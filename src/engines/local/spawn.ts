import { PYTHON_DIR } from "../../config/package-files.ts";
import { appEnvironment, withFolders } from "../../host/app-environment.ts";
import { residentBelow } from "../../host/process-tree.ts";
import { DOOR_ADDRESS, behindWalls } from "../../host/walls/outer-keeper.ts";
import { networkFields, networkVariables } from "../../host/walls/network.ts";
import type { KeptStart } from "../../host/start-kept.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Exit, SeatEvents, Started, Workload } from "../engine.ts";
import type { WorkloadFolders } from "./folders.ts";
import { hold, judge } from "./limited.ts";
import type { HeldFork } from "./limited.ts";
import { startHeld } from "./start-held.ts";
import type { HeldStart, ProjectWalls, Ways } from "./start-held.ts";
import { usageOf } from "./usage.ts";
import { ProcessLook } from "./vitals.ts";

/** Reads its order, then keeps the replica or template that the order names. */
const START = `import sys; sys.path[:1] = [${JSON.stringify(PYTHON_DIR)}]; from millrace_worker.start import main; main()`;

/** Shared by all: the limit on such looks applies to the whole service. */
const look = new ProcessLook();

export type Tickets = { readonly template?: string; readonly replica: string };

/** A process that is to be. */
export type ProcessStart = HeldStart & {
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
  /** How a replica ended that it had forked, if more is known of that than its code. */
  explain?(exit: Exit): Promise<Exit>;
  /** It is told that the app has been imported, for those who measure starts. */
  noteImported?(): void;
};

/** Starts a template or a replica, which calls home; what it says before that is told as lines. */
export type Spawn = (
  start: ProcessStart,
  clock: Clock,
  events: Pick<SeatEvents, "onLog" | "onError">,
) => StartedProcess;

/** Starts a keeper and, under it, a template or a replica; behind walls, if the host has some. */
export const spawnPython: Spawn = (start, clock, events) => {
  const { workload, limits } = start;
  const ways: Ways = {
    plain: () => plainStart(start),
    walled: (walls, scratch) => walledStart(start, walls, scratch),
  };
  const started = startHeld(start, ways, clock, events);
  if (!("kept" in started)) return over(started);
  const { kept, exited, held, verdict } = started;
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
    python: python.program,
    args: ["-c", START],
    cwd: folders.bundle,
    env: appEnvironment(process.env, withFolders(workload.variables, folders, python)),
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
    program: python.program,
    args: ["-c", START],
    env: appEnvironment(process.env, withFolders(variables, folders, python)),
    order: orderOf(workload, folders, DOOR_ADDRESS, tickets),
    input: null,
    memoryBytes: workload.limits.memoryBytes,
    folders,
    scratch,
    python,
    reads: [],
    writes: [],
    network: networkFields(workload.network, walls.network),
    unixSockets: workload.unixSockets,
    home: address,
  });
}

/** What the harness is told, as one line. */
export function orderOf(
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

/** A process that has not been started. */
function over(exit: Exit): StartedProcess {
  const exited = Promise.resolve(exit);
  return { exited, kill: () => {}, vitals: () => null, usage: async () => null, residentBytes: () => 0 };
}
