import path from "node:path";
import { spawn } from "node:child_process";
import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { constants } from "node:os";
import type { Writable } from "node:stream";
import { PACKAGE_DIR } from "../../config/package-files.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Exit, LaunchSpec, LauncherEvents, Started } from "../engine.ts";
import { LAST_LINES_MS, readLogLines } from "../log-lines.ts";
import { keeperEnd } from "./end-keeper.ts";
import { appEnvironment } from "./environment.ts";
import { residentBelow } from "./process-tree.ts";
import { ProcessLook } from "./vitals.ts";
import { whatIsMissing } from "./what-is-missing.ts";

/** The folder that holds the package `millrace_worker`. */
const PYTHON_DIR = path.join(PACKAGE_DIR, "python");
const START = `import sys; sys.path[:1] = [${JSON.stringify(PYTHON_DIR)}]; from millrace_worker.start import main; main()`;

/** One for all: what looks may take is a matter of the whole service. */
const look = new ProcessLook();

export type Tickets = { readonly template?: string; readonly replica: string };

/** A process of ours, with what it keeps. */
export type StartedProcess = Started & {
  /** What it holds in memory: told by the kernel of whom we started, never by an app of itself. */
  residentBytes(): number;
};

/** Starts a template or a replica, which calls home at `address`; what it says before that is told as lines. */
export type Spawn = (
  python: string,
  spec: LaunchSpec,
  address: string,
  tickets: Tickets,
  clock: Clock,
  events: Pick<LauncherEvents, "onLog" | "onError">,
) => StartedProcess;

/** Starts a keeper and, under it, a template or a replica. */
export const spawnPython: Spawn = (python, spec, address, tickets, clock, { onLog, onError }) => {
  const child = begin(python, spec);
  if (child instanceof Error) return stillborn(child);
  const order = {
    address,
    bundle_dir: spec.bundleDir,
    concurrency: spec.concurrency,
    ignore_extra: spec.ignoreExtra,
    max_result_bytes: spec.maxResultBytes,
    max_chunk_bytes: spec.maxChunkBytes,
    template_ticket: tickets.template,
    replica_ticket: tickets.replica,
  };
  child.stdin.on("error", () => {}); // It died before it read: its exit tells.
  child.stdin.end(`${JSON.stringify(order)}\n`);
  for (const name of ["stdout", "stderr"] as const)
    readLogLines(child[name], name, onLog, { owner: spec.owner }).catch(onError);
  const exited = new Promise<Exit>((resolve) => {
    // `exit`, not `close`: something the app started may hold the pipes open.
    child.once("exit", (code, signal) => resolve({ detail: describeExit(code, signal), initFailure: null }));
    child.once("error", (error) =>
      resolve({ detail: error.message, initFailure: whatIsMissing(python, spec) }),
    );
  });
  void exited.then(() =>
    clock.after(LAST_LINES_MS, () => [child.stdout, child.stderr].forEach((pipe) => pipe.destroy())),
  );
  const { pid: keeper = 0 } = child;
  return {
    exited,
    kill: keeperEnd(child, exited, clock),
    vitals: (pid) => look.at(pid, keeper),
    residentBytes: () => residentBelow(keeper),
  };
};

function begin(python: string, spec: LaunchSpec): ChildProcessWithoutNullStreams | Error {
  try {
    const child = spawn(python, ["-c", START], {
      cwd: spec.bundleDir,
      env: appEnvironment(process.env, spec.environment),
      stdio: ["pipe", "pipe", "pipe"],
      // A session of its own: Ctrl-C at the service's terminal is for the service alone.
      detached: true,
    });
    // Without descriptors left it has no pipes, whatever its type says.
    if ((child.stdin as Writable | undefined) !== undefined) return child;
    child.once("error", () => {});
    return new Error("no descriptors are left");
  } catch (error) {
    const isTooLarge = (error as NodeJS.ErrnoException).code === "E2BIG";
    return isTooLarge ? new Error("its secrets are larger than an environment may be") : (error as Error);
  }
}

/** A process that could not be started. */
function stillborn({ message }: Error): StartedProcess {
  const exited = Promise.resolve({ detail: message, initFailure: null });
  return { exited, kill: () => {}, vitals: () => null, residentBytes: () => 0 };
}

/** For people. A keeper tells its ward's signal as 128 + its number. */
export function describeExit(code: number | null, signal: string | null): string {
  if (signal) return `killed by ${signal}`;
  if (code !== null && code > 128) {
    const name = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
    if (name) return `killed by ${name}`;
  }
  return `exit code ${code}`;
}
