import path from "node:path";
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { PACKAGE_DIR } from "../../config/package-files.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Exit, LaunchSpec, Started } from "../engine.ts";
import { keeperEnd } from "./end-keeper.ts";
import { appEnvironment } from "./environment.ts";

/** The folder that holds the package `millrace_worker`. */
const PYTHON_DIR = path.join(PACKAGE_DIR, "python");
const START = `import sys; sys.path[:1] = [${JSON.stringify(PYTHON_DIR)}]; from millrace_worker.start import main; main()`;

export type Tickets = { readonly template?: string; readonly replica: string };

/** Starts a keeper and, under it, a template or a replica. What it says before it calls home goes to `onText`. */
export function spawnPython(
  python: string,
  spec: LaunchSpec,
  address: string,
  tickets: Tickets,
  clock: Clock,
  onText: (text: string) => void,
): Started {
  const child = spawn(python, ["-c", START], {
    cwd: spec.bundleDir,
    env: appEnvironment(process.env, spec.environment),
    stdio: ["pipe", "pipe", "pipe"],
    // A session of its own: Ctrl-C at the service's terminal is for the service alone.
    detached: true,
  });
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
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => onText(String(data)));
  const exited = new Promise<Exit>((resolve) => {
    // `exit`, not `close`: something the app started may hold the pipes open.
    child.once("exit", (code, signal) => resolve({ detail: describeExit(code, signal), initFailure: null }));
    child.once("error", (error) => resolve({ detail: error.message, initFailure: null }));
  });
  return { exited, kill: keeperEnd(child, exited, clock) };
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
