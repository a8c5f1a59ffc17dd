import { PYTHON_DIR } from "../config/package-files.ts";
import { systemClock } from "../kit/clock.ts";
import type { Clock } from "../kit/clock.ts";
import { within } from "../kit/within.ts";
import type { LogStream } from "../model/log-line.ts";
import { LastWords } from "./last-words.ts";
import { describeRunOut } from "./limits/limits.ts";
import type { AppLimits, Limits, WrittenFolders } from "./limits/limits.ts";
import { readLines } from "./read-lines.ts";
import { behindWalls } from "./walls/outer-keeper.ts";
import type { Reach, WalledHost } from "./walls/outer-keeper.ts";
import { describeExit, startKept } from "./start-kept.ts";
import type { Kept, KeptStart } from "./start-kept.ts";

const INPUT_DESCRIPTOR = 3;
/**
 * A keeper whose ward becomes the program that the arguments name, with the descriptors below `first` alone. It waits
 * for a byte before its input, which comes once it is in its group. If the end comes instead, the service has died, and
 * nothing begins.
 */
const keepCode = (first: number): string => `import os, sys
sys.path.insert(0, ${JSON.stringify(PYTHON_DIR)})
from millrace_worker import keeper, linux
service = os.getppid()
if not os.read(${INPUT_DESCRIPTOR}, 1):
    os._exit(1)
linux.close_inherited(${first})
keeper.keep(lambda: os.execv(sys.argv[1], sys.argv[1:]), service)`;
/** How long output may come after the end: only what another user runs can still hold the pipes. */
const LATE_OUTPUT_MS = 5_000;

/** How a keeper tells of SIGKILL. */
const KILLED = 137;

export type KeptProgram = {
  /** Absolute: it is not looked for on the path. */
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** What its descriptor 3 gives it, for what must not be seen on a command line; without it there is none. */
  readonly input?: string;
  readonly onLine: (text: string, stream: LogStream) => void;
  /** What it may reach where it lives behind walls, which is also where it starts; null for all the service can. */
  readonly walls: { readonly host: WalledHost; readonly reach: Reach } | null;
  /** What it and all it starts are held to; null for nothing. */
  readonly held: Held | null;
};

type Held = {
  readonly host: AppLimits;
  readonly limits: Limits;
  readonly folders: WrittenFolders;
};

export type KeptEnd = {
  readonly code: number;
  /** For people: "exit code 3". */
  readonly detail: string;
  /** The last error it told, with the lines that explain it, or else its last line; on one line. */
  readonly lastWords: string;
};

/** Runs a program under a keeper, to its end. Throws the signal's reason when cancelled. */
export async function runKept(
  keeperPython: string,
  kept: KeptProgram,
  signal: AbortSignal,
  clock: Clock = systemClock,
): Promise<KeptEnd> {
  signal.throwIfAborted();
  const lastWords = new LastWords();
  const take = (stream: LogStream) => (text: string) => {
    kept.onLine(text, stream);
    lastWords.take(text, stream);
  };
  const { held } = kept;
  const storage = held?.folders.storage ?? null;
  const refusal = held && storage !== null ? held.host.refusal(storage) : null;
  if (refusal !== null) return { code: KILLED, detail: refusal, lastWords: "" };
  const group = held && held.host.group(held.limits);
  let started: Kept;
  try {
    started = startKept(startOf(keeperPython, kept), clock, group);
  } catch (error) {
    group?.remove();
    throw error;
  }
  const { stdout, stderr } = started;
  const read = Promise.all([readLines(stdout, take("stdout")), readLines(stderr, take("stderr"))]);
  const stop = (): void => started.end();
  signal.addEventListener("abort", stop, { once: true });
  // Whoever takes the lines has failed: nothing more is heard of it, so it ends too.
  read.catch(stop);
  let excess: string | null = null;
  const unwatch = held?.host.watch(held.folders, (why) => {
    excess = why;
    stop();
  });
  try {
    const end = await started.exited;
    await within(LATE_OUTPUT_MS, read);
    signal.throwIfAborted();
    if (excess === null && held && group?.ranOut()) excess = describeRunOut(held.limits);
    if (excess !== null) return { code: KILLED, detail: excess, lastWords: "" };
    return {
      code: end.code ?? 1,
      detail: describeExit(end.code, end.signal),
      lastWords: lastWords.text,
    };
  } finally {
    signal.removeEventListener("abort", stop);
    unwatch?.();
    group?.remove();
    started.close();
  }
}

function startOf(keeperPython: string, kept: KeptProgram): KeptStart {
  const { program, args, cwd, env, input, walls, held } = kept;
  if (walls !== null) {
    const memoryBytes = held?.limits.memoryBytes ?? null;
    const order = { program, args, env, order: null, home: null, input: input ?? null, memoryBytes };
    return behindWalls(walls.host, { ...walls.reach, ...order });
  }
  const code = keepCode(input === undefined ? INPUT_DESCRIPTOR : INPUT_DESCRIPTOR + 1);
  return {
    python: keeperPython,
    args: ["-I", "-S", "-c", code, program, ...args],
    cwd,
    env,
    input: { descriptor: INPUT_DESCRIPTOR, text: `\n${input ?? ""}` },
  };
}
