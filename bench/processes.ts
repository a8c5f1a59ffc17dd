import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { basename } from "node:path";
import { createInterface } from "node:readline";

const STOP_MS = 10_000;
const STDERR_TAIL_CHARS = 4_000;

/** A process of the bench that speaks in lines. */
export type Child = {
  /** 0 when it did not start. */
  readonly pid: number;
  /** The next line it writes; rejects, with the end of its stderr, when it ends instead. */
  readonly nextLine: () => Promise<string>;
  readonly send: (line: string) => void;
  /** Ends it and all of its process group; resolves when it is gone. */
  readonly stop: () => Promise<void>;
};

const running = new Set<Pick<Child, "stop">>();
let isStopping = false;

/** Where and as whom a process runs, if not as the bench itself. */
type Surroundings = { readonly cwd?: string; readonly uid?: number; readonly gid?: number };

/** Starts a process that ends, at the latest, with the bench. */
export function startChild(command: string, args: readonly string[], surroundings: Surroundings = {}): Child {
  const child = open(command, args, surroundings);
  const stderr = tail(child.stderr);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ended = endOf(child);
  const handle: Child = {
    pid: child.pid ?? 0,
    nextLine: async () => {
      const { done, value } = await lines.next();
      if (done !== true) return value;
      throw new Error(`${await ended}${explain(stderr())}`);
    },
    send: (line) => void child.stdin.write(`${line}\n`),
    stop: async () => {
      child.stdin.end();
      if (child.exitCode === null && child.signalCode === null) signalTo(child, "SIGTERM");
      const overdue = setTimeout(() => signalTo(child, "SIGKILL", "group"), STOP_MS);
      await ended;
      clearTimeout(overdue);
    },
  };
  running.add(handle);
  void ended.then(() => running.delete(handle));
  return handle;
}

/** More than any measurement opens in one process. */
const OPEN_FILES = 20_000;

/** The same command with room for many connections, as far as this machine lets it have that. */
export function withOpenFiles(command: string, args: readonly string[]): [string, string[]] {
  const raise = `[ "$(ulimit -n)" -ge ${OPEN_FILES} ] || ulimit -n ${OPEN_FILES} 2>/dev/null; exec "$0" "$@"`;
  return ["sh", ["-c", raise, command, ...args]];
}

/** What a process of ours that was started with `--expose-gc` holds after a collection. */
export async function askMemory({ pid, nextLine }: Child): Promise<NodeJS.MemoryUsage> {
  process.kill(pid, "SIGUSR2");
  return JSON.parse(await nextLine()) as NodeJS.MemoryUsage;
}

/** Runs a tool to its end and resolves with what it printed; rejects when it fails or takes too long. */
export async function runTool(
  command: string,
  args: readonly string[],
  { limitMs = 60_000, ...surroundings }: Surroundings & { limitMs?: number } = {},
): Promise<string> {
  const child = open(command, args, surroundings);
  const ended = endOf(child);
  const handle = {
    stop: async () => {
      signalTo(child, "SIGKILL", "group");
      await ended;
    },
  };
  running.add(handle);
  const stderr = tail(child.stderr);
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stdin.end();
  const overdue = setTimeout(() => signalTo(child, "SIGKILL", "group"), limitMs);
  const end = await ended;
  clearTimeout(overdue);
  running.delete(handle);
  if (child.exitCode !== 0) throw new Error(`${end}${explain(stderr())}`);
  return output.trim();
}

/** Stops every process that still runs; from then on none can be started. */
export async function stopAll(): Promise<void> {
  isStopping = true;
  await Promise.all([...running].map((child) => child.stop()));
  // What is started from now on belongs to another bench.
  isStopping = false;
}

function open(
  command: string,
  args: readonly string[],
  surroundings: Surroundings,
): ChildProcessWithoutNullStreams {
  if (isStopping) throw new Error("the bench is stopping");
  // A group of its own: Ctrl-C reaches the bench alone, which then stops everything in order.
  const child = spawn(command, args, { ...surroundings, detached: true, stdio: "pipe" });
  // A child that is gone cannot be written to; its end is reported where it is awaited.
  child.stdin.on("error", () => {});
  // What it left behind in its group ends with it.
  child.on("exit", () => signalTo(child, "SIGKILL", "group"));
  return child;
}

/** Resolves, never rejects, with a sentence on how the process ended. */
async function endOf(child: ChildProcessWithoutNullStreams): Promise<string> {
  const name = child.spawnargs
    .slice(0, 2)
    .map((arg) => basename(arg))
    .join(" ");
  try {
    const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
    return `${name} ended with ${signal ?? `status ${code}`}`;
  } catch (error) {
    return `${name} did not start: ${(error as Error).message}`;
  }
}

function tail(stream: NodeJS.ReadableStream): () => string {
  let text = "";
  stream.setEncoding("utf8");
  stream.on("data", (more: string) => (text = (text + more).slice(-STDERR_TAIL_CHARS)));
  return () => text;
}

/** The last line of a stderr usually says what was wrong: `SomeError: why`. */
function explain(stderr: string): string {
  const lines = stderr.split("\n").filter((line) => line.trim() !== "");
  const line = lines.findLast((text) => /error/i.test(text)) ?? lines.at(-1);
  return line === undefined ? "" : `: ${line.trim()}`;
}

function signalTo(
  child: ChildProcessWithoutNullStreams,
  signal: NodeJS.Signals,
  scope: "one" | "group" = "one",
): void {
  if (child.pid === undefined) return;
  try {
    process.kill(scope === "group" ? -child.pid : child.pid, signal);
  } catch {
    // Already gone.
  }
}
