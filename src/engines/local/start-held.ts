import { type AppPython, hiddenPython } from "../../host/app-python.ts";
import { appEnvironment, withFolders } from "../../host/app-environment.ts";
import { type AppLimits, describeRunOut } from "../../host/limits/limits.ts";
import { networkFields, networkVariables, type ServerPorts } from "../../host/walls/network.ts";
import { makeScratch, removeScratch } from "../../host/walls/scratch.ts";
import type { AppWalls, WalledHost } from "../../host/walls/walls.ts";
import type { Clock } from "../../kit/clock.ts";
import { describeExit, type Exit, type ReplicaGpus, type Workload, ended, cannotStart } from "../engine.ts";
import { LAST_LINES_MS, readOutput, type OutputEvents } from "../log-lines.ts";
import { type Agent, type AgentExit, startAgent } from "./agent.ts";
import { foldersOf, type ProcessHost, whatIsMissing, type WorkloadFolders } from "./host.ts";
import { endOf, type Held, hold, type Verdict } from "./limited.ts";
import type { Plan } from "./plan.ts";

export type HeldStart = {
  readonly agentPython: string;
  readonly python: AppPython;
  readonly workload: Workload;
  readonly folders: WorkloadFolders;
  readonly walls: (AppWalls & Pick<WalledHost, "user">) | null;
  readonly limits: AppLimits | null;
  /** Those of its first replica, if it is a template. */
  readonly gpus?: ReplicaGpus | undefined;
};

export function heldStart(
  host: ProcessHost,
  workload: Workload,
  python: AppPython,
  gpus?: ReplicaGpus,
): HeldStart {
  const { python: agentPython, dataDir, level, reads = [], network, storage, limits = null } = host;
  const user = storage.userOf(workload.projectId);
  const walls = level && { level, dataDir, reads, network, user };
  return { agentPython, python, workload, folders: foldersOf(workload, dataDir), walls, limits, gpus };
}

/** The parts of a plan that differ between the processes of an app. */
export type HeldProgram = Pick<Plan, "program" | "args" | "order" | "home"> & {
  /** Variables that the app cannot replace. */
  readonly fixed?: Readonly<Record<string, string>>;
  readonly server?: ServerPorts | null;
};

export type HeldProcess = {
  readonly agent: Agent;
  readonly exited: Promise<Exit>;
  readonly held: Held | null;
  readonly verdict: Verdict;
};

/** Starts something of an app within its limits, and reports its output as lines. Returns an exit if it could not start. */
export function startHeld(
  start: HeldStart,
  program: HeldProgram,
  clock: Clock,
  events: OutputEvents,
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
    const { code, message } = error as NodeJS.ErrnoException;
    return ended(code === "E2BIG" ? "its secrets are too large to pass as environment variables" : message);
  }
  readOutput(agent, workload.projectId, events);
  const told = agent.exited.then(
    (end): Exit => {
      limits?.noteStorage(folders.storage, end.isStorageFull);
      verdict.why = end.full && limits ? limits.describeFull(end.full) : null;
      return exitOf(end, start);
    },
    (error: Error): Exit => ({ detail: error.message, initFailure: whatIsMissing(python.program, folders) }),
  );
  const exited = held ? endOf(told, held) : told.then((exit) => withVerdict(exit, verdict));
  void exited.then(() => clock.after(LAST_LINES_MS, () => agent.close()));
  if (scratch !== null) void exited.then(() => removeScratch(scratch));
  return { agent, exited, held, verdict };
}

function withVerdict(exit: Exit, { why }: Verdict): Exit {
  return why === null ? exit : { ...exit, detail: why };
}

function planOf(
  { python, workload, folders, walls, limits, gpus }: HeldStart,
  { program, args, fixed = {}, server = null, ...told }: HeldProgram,
  scratch: string | null,
): Plan {
  const written = { scratch: scratch === null ? [] : [scratch], storage: folders.storage };
  let own: Readonly<Record<string, string>> = {};
  let behind: Plan["walls"] = null;
  if (walls !== null && scratch !== null) {
    const { network: asked, unixSockets, limits } = workload;
    // The service's own home is out of reach.
    own = { HOME: scratch, TMPDIR: scratch, ...networkVariables(asked, walls.network) };
    const network = networkFields(asked, walls.network, server);
    const { memoryBytes } = limits;
    const reach = { folders, scratch, python, reads: [], writes: [], network, unixSockets, memoryBytes };
    behind = { host: walls, reach };
  }
  const variables = withFolders({ ...own, ...workload.variables }, folders, python);
  return {
    program,
    args,
    cwd: folders.bundle,
    env: { ...appEnvironment(process.env, variables), ...gpus?.variables, ...fixed },
    ...told,
    walls: behind,
    gpus: gpus ? { all: gpus.all, granted: gpus.files } : null,
    watched: limits && limits.watched(workload.limits, written),
    server: server && { port: server.own, authored: server.declared },
  };
}

function exitOf({ code, signal, isOutOfMemory }: AgentExit, start: HeldStart): Exit {
  const { python, workload, folders, walls } = start;
  if (isOutOfMemory) return { ...ended(describeRunOut(workload.limits)), isOutOfMemory };
  const hidden = hiddenPython(python, code, walls);
  // The agent starts anyway: its child does not find the program.
  const missing = whatIsMissing(python.program, folders) ?? (hidden === null ? null : cannotStart(hidden));
  return { detail: describeExit(code, signal), initFailure: code === 0 ? null : missing };
}
