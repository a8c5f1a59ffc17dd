import path from "node:path";
import { appEnvironment, withFolders } from "../../../host/app-environment.ts";
import { startKept } from "../../../host/start-kept.ts";
import type { Kept, KeptStart } from "../../../host/start-kept.ts";
import { behindWalls } from "../../../host/walls/outer-keeper.ts";
import type { WalledHost } from "../../../host/walls/outer-keeper.ts";
import { makeScratch, removeScratch } from "../../../host/walls/scratch.ts";
import type { Clock } from "../../../kit/clock.ts";
import type { Workload } from "../../engine.ts";
import type { WorkloadFolders } from "../folders.ts";
import { SERVER_CODE } from "./server-code.ts";

/** A server that is to be. */
export type ServerStart = {
  /** The interpreter of the keepers: the host's. */
  readonly keeperPython: string;
  /** The app's interpreter, which `python` stands for in its command. */
  readonly python: string;
  /** The command, with its port in it. */
  readonly command: readonly string[];
  readonly port: number;
  readonly workload: Workload;
  readonly folders: WorkloadFolders;
  /** Null where apps live behind no walls. */
  readonly walls: WalledHost | null;
};

const PYTHON_NAMES = new Set(["python", "python3"]);

/** Starts a keeper and, under it, the app's server; behind walls, if the host has some. Throws if it cannot. */
export function startServer(start: ServerStart, clock: Clock): Kept {
  const { walls } = start;
  if (!walls) return startKept(plainStart(start), clock);
  const scratch = makeScratch(walls.dataDir);
  const remove = (): void => void removeScratch(scratch);
  try {
    const kept = startKept(walledStart(start, walls, scratch), clock);
    kept.exited.then(remove, remove);
    return kept;
  } catch (error) {
    remove();
    throw error;
  }
}

function plainStart(start: ServerStart): KeptStart {
  return {
    python: start.keeperPython,
    args: argumentsOf(start),
    cwd: start.folders.bundle,
    env: environmentOf(start, {}),
    input: { descriptor: 0, text: "" },
  };
}

function walledStart(start: ServerStart, walls: WalledHost, scratch: string): KeptStart {
  const { keeperPython, workload, folders } = start;
  return behindWalls(walls, {
    program: keeperPython,
    args: argumentsOf(start),
    // The service's own home is out of reach.
    env: environmentOf(start, { HOME: scratch, TMPDIR: scratch }),
    order: "",
    folders,
    scratch,
    network: workload.network,
    // It does not call home.
    home: "",
  });
}

function argumentsOf({ command, python }: ServerStart): string[] {
  const [program = "", ...rest] = command;
  // The host may have it under another name, and the app's own version matters.
  return ["-I", "-S", "-c", SERVER_CODE, PYTHON_NAMES.has(program) ? python : program, ...rest];
}

function environmentOf(
  { python, port, workload, folders }: ServerStart,
  own: Readonly<Record<string, string>>,
): Record<string, string> {
  const variables = appEnvironment(process.env, withFolders({ ...own, ...workload.variables }, folders));
  const { PATH = "" } = variables;
  const search = folders.environment === null ? [path.dirname(python), PATH].join(path.delimiter) : PATH;
  // After the app's own: it is our port, whatever a secret says.
  return { ...variables, PATH: search, PORT: String(port) };
}
