import type { AppLimits, Limits, WrittenFolders } from "../../host/limits/limits.ts";
import { describeRunOut } from "../../host/limits/limits.ts";
import type { Reach, WalledHost } from "../../host/walls/walls.ts";
import { type Clock, systemClock, withTimeout } from "../../kit/clock.ts";
import type { LogStream } from "../../model/log-line.ts";
import { describeExit } from "../engine.ts";
import { type Agent, startAgent } from "../local/agent.ts";
import type { Readable } from "node:stream";
import { LineCutter } from "../../kit/line-cutter.ts";
import { readPaced } from "../../host/read-paced.ts";

/** How long output may come after the end: only what another user runs can still hold the pipes. */
const LATE_OUTPUT_MS = 5_000;
/** How an agent reports SIGKILL. */
const KILLED = 137;

export type Program = {
  /** Absolute: it is not looked for on the path. */
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Its descriptor 3, for values that must not be visible on a command line. */
  readonly input?: string;
  readonly onLine: (text: string, stream: LogStream) => void;
  /** Its walls, and the folder in which it starts; null for none. */
  readonly walls: { readonly host: WalledHost; readonly reach: Omit<Reach, "memoryBytes"> } | null;
  /** The limits of it and all it starts; null for none. */
  readonly held: {
    readonly host: AppLimits;
    readonly limits: Limits;
    readonly folders: WrittenFolders;
  } | null;
};

export type ProgramEnd = {
  readonly code: number;
  /** For people: "exit code 3". */
  readonly detail: string;
  /** The last error that it printed, with its explanation, or else its last line. */
  readonly lastWords: string;
};

/** Runs a program under an agent, to its end. Throws the signal's reason when cancelled. */
export async function runProgram(
  agentPython: string,
  program: Program,
  signal: AbortSignal,
  clock: Clock = systemClock,
): Promise<ProgramEnd> {
  signal.throwIfAborted();
  const lastWords = new LastWords();
  const take = (stream: LogStream) => (text: string) => {
    program.onLine(text, stream);
    lastWords.take(text, stream);
  };
  const { held, walls } = program;
  const group = held && held.host.group(held.limits);
  const plan = {
    program: program.program,
    args: program.args,
    cwd: walls?.reach.folders.bundle ?? program.cwd,
    env: program.env,
    input: program.input,
    walls: walls && { ...walls, reach: { ...walls.reach, memoryBytes: held?.limits.memoryBytes ?? null } },
    watched: held && held.host.watched(held.limits, held.folders),
  };
  let agent: Agent;
  try {
    agent = startAgent(agentPython, plan, clock, group);
  } catch (error) {
    group?.remove();
    throw error;
  }
  const { stdout, stderr } = agent;
  const read = Promise.all([readLines(stdout, take("stdout")), readLines(stderr, take("stderr"))]);
  const stop = (): void => agent.end();
  signal.addEventListener("abort", stop, { once: true });
  // The reader of its lines has failed, so it ends too.
  read.catch(stop);
  try {
    const end = await agent.exited;
    await withTimeout(LATE_OUTPUT_MS, read);
    signal.throwIfAborted();
    held?.host.noteStorage(held.folders.storage, end.isStorageFull);
    // What it had too much of is why it ended.
    let excess: string | null = null;
    if (held && end.full !== null) excess = held.host.describeFull(end.full);
    else if (held && (end.isOutOfMemory || group?.ranOut())) excess = describeRunOut(held.limits);
    if (excess !== null) return { code: KILLED, detail: excess, lastWords: "" };
    return { code: end.code ?? 1, detail: describeExit(end.code, end.signal), lastWords: lastWords.text };
  } finally {
    signal.removeEventListener("abort", stop);
    group?.remove();
    agent.close();
  }
}

/** A longer line is handed on in pieces. */
const MAX_LINE_BYTES = 16 * 1024;
/** Builds and file runs share one turn, next to those of the apps. */
const OWNER = "builds";

/** Reads a process's output to its end, by lines; a carriage return ends a line too, as progress bars use it. */
export async function readLines(stream: Readable, onLine: (text: string) => void): Promise<void> {
  const cutter = new LineCutter({ maxBytes: MAX_LINE_BYTES, endsAtReturn: true }, (bytes) =>
    onLine(bytes.toString("utf8")),
  );
  await readPaced(stream, cutter, { owner: OWNER });
}

const ERROR = /^error\b/i;
/** What uv draws before its explanations. */
const DECORATION = /^[\s×╰├│─▶]+/;
const MAX_LAST_WORDS = 4;
const MAX_LAST_CHARS = 1_000;

/** The last error in a program's output, or its last line. The order across the two streams is unknown: stderr goes first. */
export class LastWords {
  readonly #heard = { stderr: new Heard(), stdout: new Heard() };

  take(text: string, stream: LogStream): void {
    const line = text.replace(DECORATION, "").trim();
    if (line !== "") this.#heard[stream].take(line);
  }

  get text(): string {
    const { stderr, stdout } = this.#heard;
    const told = stdout.hasError && !stderr.hasError ? stdout : stderr;
    return (told.words.length > 0 ? told : stdout).words.join(" ").slice(0, MAX_LAST_CHARS);
  }
}

class Heard {
  words: string[] = [];
  hasError = false;

  take(line: string): void {
    const isError = ERROR.test(line);
    if (isError || !this.hasError) this.words = [line];
    else if (this.words.length < MAX_LAST_WORDS) this.words.push(line);
    this.hasError ||= isError;
  }
}
