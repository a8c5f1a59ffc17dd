import { type AppPython, hiddenPython } from "../../host/app-python.ts";
import { appEnvironment, withFolders } from "../../host/app-environment.ts";
import { type AppLimits, describeRunOut } from "../../host/limits/limits.ts";
import { networkFields, networkVariables, type ServerPorts } from "../../host/walls/network.ts";
import { makeScratch, removeScratch } from "../../host/walls/scratch.ts";
import type { AppWalls, WalledHost } from "../../host/walls/walls.ts";
import type { Clock } from "../../kit/clock.ts";
import { describeExit, type Exit, type SeatEvents, type Workload, ended, cannotStart } from "../engine.ts";
import { LAST_LINES_MS, readOutput } from "../log-lines.ts";
import { type Agent, type AgentExit, startAgent } from "./agent.ts";
import { foldersOf, type ProcessHost, whatIsMissing, type WorkloadFolders } from "./host.ts";
import { endOf, type Held, hold, type Verdict } from "./limited.ts";
import type { Plan } from "./plan.ts";

/** What a project's processes live behind. */
type ProjectWalls = AppWalls & Pick<WalledHost, "user">;

/** Something of an app that is to be started. */
export type HeldStart = {
  /** The interpreter of agents: the host's. */
  readonly agentPython: string;
  readonly python: AppPython;
  readonly workload: Workload;
  readonly folders: WorkloadFolders;
  /** Null where apps live behind no walls. */
  readonly walls: ProjectWalls | null;
  /** Null where the host holds them to nothing. */
  readonly limits: AppLimits | null;
};

/** What is to be started of a workload on this machine. */
export function heldStart(host: ProcessHost, workload: Workload, python: AppPython): HeldStart {
  const { python: agentPython, dataDir, level, reads = [], network, storage, limits = null } = host;
  const user = storage.userOf(workload.projectId);
  const walls = level && { level, dataDir, reads, network, user };
  return { agentPython, python, workload, folders: foldersOf(workload, dataDir), walls, limits };
}

/** What of a plan is not the same for everything of an app. */
export type HeldProgram = Pick<Plan, "program" | "args" | "order" | "home"> & {
  /** Variables that stay as they are, whatever the app says. */
  readonly fixed?: Readonly<Record<string, string>>;
  readonly server?: ServerPorts | null;
};

/** What was started, and what it is held to; null for nothing. */
export type HeldProcess = {
  readonly agent: Agent;
  readonly exited: Promise<Exit>;
  readonly held: Held | null;
  readonly verdict: Verdict;
};

/**
 * Starts something of an app within its limits; what it says on its own output is told as lines. Gives how it has ended
 * where it could not start.
 */
export function startHeld(
  start: HeldStart,
  program: HeldProgram,
  clock: Clock,
  events: Pick<SeatEvents, "onLog" | "onError">,
): HeldProcess | Exit {
  const { python, workload, folders, walls, limits } = start;
  const verdict: Verdict = { why: null };
  const held = limits && hold(limits, workload.limits, verdict);
  let agent: Agent;
  let scratch: string | null = null;
  try {
    scratch = walls && makeScratch(walls.dataDir, walls.user);
    agent = startAgent(start.agentPython, planOf(start, program, scratch), clock, held?.group ?? null);
  } catch (error) {
    held?.group.remove();
    if (scratch !== null) void removeScratch(scratch);
    return stillborn(error as NodeJS.ErrnoException);
  }
  readOutput(agent, workload.projectId, events);
  const ended = agent.exited.then(
    (end): Exit => {
      limits?.noteStorage(folders.storage, end.isStorageFull);
      verdict.why = end.full && limits ? limits.describeFull(end.full) : null;
      return exitOf(end, start);
    },
    (error: Error): Exit => ({ detail: error.message, initFailure: whatIsMissing(python.program, folders) }),
  );
  const exited = held ? endOf(ended, held) : ended.then((exit) => withVerdict(exit, verdict));
  void exited.then(() => clock.after(LAST_LINES_MS, () => agent.close()));
  if (scratch !== null) void exited.then(() => removeScratch(scratch));
  return { agent, exited, held, verdict };
}

/** How it ended, if all of it was ended for a reason. */
export function withVerdict(exit: Exit, { why }: Verdict): Exit {
  return why === null ? exit : { ...exit, detail: why };
}

function planOf(
  { python, workload, folders, walls, limits }: HeldStart,
  { program, args, order, home, fixed = {}, server = null }: HeldProgram,
  scratch: string | null,
): Plan {
  const written = { scratch: scratch === null ? [] : [scratch], storage: folders.storage };
  // The service's own home is out of reach.
  const own =
    walls === null || scratch === null
      ? {}
      : { HOME: scratch, TMPDIR: scratch, ...networkVariables(workload.network, walls.network) };
  const variables = withFolders({ ...own, ...workload.variables }, folders, python);
  const reach =
    walls === null || scratch === null
      ? null
      : {
          folders,
          scratch,
          python,
          reads: [],
          writes: [],
          network: networkFields(workload.network, walls.network, server),
          unixSockets: workload.unixSockets,
          memoryBytes: workload.limits.memoryBytes,
        };
  return {
    program,
    args,
    cwd: folders.bundle,
    env: { ...appEnvironment(process.env, variables), ...fixed },
    order,
    home,
    input: null,
    walls: walls && reach && { host: walls, reach },
    watched: limits && limits.watched(workload.limits, written),
    server: server && { port: server.own, authored: server.declared },
  };
}

function exitOf({ code, signal, isOutOfMemory }: AgentExit, start: HeldStart): Exit {
  const { python, workload, folders, walls } = start;
  if (isOutOfMemory)
    return { detail: describeRunOut(workload.limits), initFailure: null, isOutOfMemory: true };
  const hidden = hiddenPython(python, code, walls);
  // It is the agent that starts, and its child that finds nothing there.
  const missing = whatIsMissing(python.program, folders) ?? (hidden === null ? null : cannotStart(hidden));
  return { detail: describeExit(code, signal), initFailure: code === 0 ? null : missing };
}

/** A process that could not be started. */
function stillborn({ code, message }: NodeJS.ErrnoException): Exit {
  const detail = code === "E2BIG" ? "its secrets are too large to pass as environment variables" : message;
  return ended(detail);
}
