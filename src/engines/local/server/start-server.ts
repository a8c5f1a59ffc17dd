import { appEnvironment, withFolders } from "../../../host/app-environment.ts";
import type { KeptStart } from "../../../host/start-kept.ts";
import { networkFields, networkVariables } from "../../../host/walls/network.ts";
import { behindWalls } from "../../../host/walls/outer-keeper.ts";
import type { Rung } from "../../../host/walls/rung.ts";
import type { Clock } from "../../../kit/clock.ts";
import type { Exit, ServerEvents } from "../../engine.ts";
import { startHeld } from "../start-held.ts";
import type { HeldProcess, HeldStart, ProjectWalls } from "../start-held.ts";
import { KEPT_SERVER_CODE, SERVER_CODE } from "./server-code.ts";

/** A server that is to be. */
export type ServerStart = HeldStart & {
  /** The interpreter of the keepers: the host's. */
  readonly keeperPython: string;
  /** The command, with its port in it. */
  readonly command: readonly string[];
  readonly port: number;
  /** The port that its configuration declares. */
  readonly declared: number;
};

const PYTHON_NAMES = new Set(["python", "python3"]);

/** Starts a keeper and, under it, the app's server; behind walls, if the host has some. */
export function startServer(start: ServerStart, clock: Clock, events: ServerEvents): HeldProcess | Exit {
  const ways = {
    plain: () => plainStart(start),
    walled: (walls: ProjectWalls, scratch: string) => walledStart(start, walls, scratch),
  };
  return startHeld(start, ways, clock, events);
}

/** How many keepers are above a server. In a namespace of its own the first process is one, too. */
export function keepersAbove(rung: Rung | null): number {
  return rung === "userns" || rung === "uid" ? 2 : 1;
}

function plainStart(start: ServerStart): KeptStart {
  return {
    python: start.keeperPython,
    args: argumentsOf(start, KEPT_SERVER_CODE),
    cwd: start.folders.bundle,
    env: environmentOf(start, {}),
    input: { descriptor: 0, text: "\n" },
  };
}

function walledStart(start: ServerStart, walls: ProjectWalls, scratch: string): KeptStart {
  const { keeperPython, workload, folders } = start;
  // The service's own home is out of reach.
  const own = { HOME: scratch, TMPDIR: scratch, ...networkVariables(workload.network, walls.network) };
  return behindWalls(walls, {
    program: keeperPython,
    args: argumentsOf(start, SERVER_CODE),
    env: environmentOf(start, own),
    order: null,
    input: null,
    memoryBytes: workload.limits.memoryBytes,
    folders,
    scratch,
    python: start.python,
    reads: [],
    writes: [],
    network: networkFields(workload.network, walls.network, { own: start.port, declared: start.declared }),
    unixSockets: workload.unixSockets,
    // It does not call home.
    home: null,
  });
}

function argumentsOf({ command, python }: ServerStart, code: string): string[] {
  const [program = "", ...rest] = command;
  // The host may have it under another name, and the app's own version matters.
  return ["-I", "-S", "-c", code, PYTHON_NAMES.has(program) ? python.program : program, ...rest];
}

function environmentOf(
  { python, port, workload, folders }: ServerStart,
  own: Readonly<Record<string, string>>,
): Record<string, string> {
  const variables = withFolders({ ...own, ...workload.variables }, folders, python);
  // After the app's own: it is our port, whatever a secret says.
  return { ...appEnvironment(process.env, variables), PORT: String(port) };
}
