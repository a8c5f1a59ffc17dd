import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { within } from "../../kit/within.ts";
import type { BuildStream } from "../../model/build.ts";
import { describeExit } from "../../replicas/process/spawn.ts";
import { readLines } from "./read-lines.ts";

const PYTHON_DIR = fileURLToPath(new URL("../../../python", import.meta.url));
/** A keeper whose ward becomes the program that the arguments name. */
const KEEP = `import os, sys; sys.path.insert(0, ${JSON.stringify(PYTHON_DIR)})
from millrace_worker.keeper import keep
keep(lambda: os.execv(sys.argv[1], sys.argv[1:]), os.getppid())`;
/** How long a keeper has to kill what is below it before it is killed itself. */
const KEEPER_GRACE_MS = 5_000;
/** How long output may come after the end: only what another user runs can still hold the pipes. */
const LATE_OUTPUT_MS = 5_000;

const ERROR = /^error\b/i;
/** What uv draws before its explanations. */
const DECORATION = /^[\s×╰├│─▶]+/;
const MAX_LAST_WORDS = 4;
const MAX_LAST_CHARS = 1_000;

export type KeptProcess = {
  /** Absolute: it is not looked for on the path. */
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly onLine: (text: string, stream: BuildStream) => void;
};

export type KeptEnd = {
  readonly code: number;
  /** For people: "exit code 3". */
  readonly detail: string;
  /** The last error it told, with the lines that explain it, or else its last line; on one line. */
  readonly lastWords: string;
};

/**
 * Runs a program under a keeper of its own: when it ends, when it is cancelled and when the service dies, all it
 * started dies too, daemons included. Throws the signal's reason when cancelled.
 */
export async function runKept(
  keeperPython: string,
  { program, args, cwd, env, onLine }: KeptProcess,
  signal: AbortSignal,
): Promise<KeptEnd> {
  signal.throwIfAborted();
  let lastWords: string[] = [];
  let hasError = false;
  const take = (stream: BuildStream) => (text: string) => {
    onLine(text, stream);
    const line = text.replace(DECORATION, "").trim();
    if (line === "") return;
    const isError = ERROR.test(line);
    if (isError || !hasError) lastWords = [line];
    else if (lastWords.length < MAX_LAST_WORDS) lastWords.push(line);
    hasError ||= isError;
  };
  const child = spawn(keeperPython, ["-I", "-S", "-c", KEEP, program, ...args], {
    cwd,
    env: { ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  const exited = new Promise<{ code: number | null; signal: string | null }>((resolve, reject) => {
    child.once("exit", (code, killedBy) => resolve({ code, signal: killedBy }));
    child.once("error", reject);
  });
  const read = Promise.all([
    readLines(child.stdout, take("stdout")),
    readLines(child.stderr, take("stderr")),
  ]);
  let timer: NodeJS.Timeout | undefined;
  const stop = (): void => {
    child.kill("SIGTERM");
    timer = setTimeout(() => child.kill("SIGKILL"), KEEPER_GRACE_MS);
  };
  signal.addEventListener("abort", stop, { once: true });
  // Whoever takes the lines has failed: nothing more is heard of it, so it ends too.
  read.catch(stop);
  try {
    const end = await exited;
    await within(LATE_OUTPUT_MS, read);
    signal.throwIfAborted();
    return {
      code: end.code ?? 1,
      detail: describeExit(end.code, end.signal),
      lastWords: lastWords.join(" ").slice(0, MAX_LAST_CHARS),
    };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    child.stdout.destroy();
    child.stderr.destroy();
  }
}
