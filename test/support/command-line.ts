import { type ChildProcess, spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";
import { askOperator } from "../../src/cli/ask-service.ts";
import { readSettings } from "../../src/config/settings.ts";
import { Condition } from "../../src/kit/concurrency.ts";
import { runtimeDir } from "../../src/kit/runtime-dir.ts";
import { prepareDatabase } from "./blank-schema.ts";
import { explains } from "./explain.ts";
import { assertNothingLeft } from "./leak-check.ts";
import { childrenOf, descriptorsOf } from "./process-tree.ts";
import { ISOLATION } from "./test-settings.ts";
import { until } from "./until.ts";
import { REPOSITORY } from "./source-files.ts";

/** The folder of the package that was built from the sources as they are (`built-package.ts`). */
export const BUILT_PACKAGE = process.env["MILLRACE_TEST_PACKAGE"] ?? REPOSITORY;

/** The command line as a user finds it in a clone: it runs the sources. */
export const MILLRACE_OF_CLONE = path.join(REPOSITORY, "bin", "millrace");

/** The command line of a package built from the sources as they are: it starts in a quarter of the time. */
export const MILLRACE = path.join(BUILT_PACKAGE, "bin", "millrace");

/** The same without the shell above a service: what is killed is the service itself. */
export const BARE_MILLRACE: readonly string[] = [
  process.execPath,
  path.join(BUILT_PACKAGE, "dist", "cli", "cli.js"),
];

/** A program that a test has bent to its purpose, built too: a file of `test/support/`, for Node to run. */
export function testProgram(
  name:
    | "kill-point"
    | "clocked-service"
    | "many-commands"
    | "store-writer"
    | "schedule-node"
    | "remote/seat-service",
): string {
  return path.join(BUILT_PACKAGE, "dist", "test", `${name}.js`);
}

export type CommandOptions = {
  readonly env?: Record<string, string>;
  readonly cwd?: string;
};

/** A real process in a session of its own, as at a terminal of its own; it is gone when the test is over. */
export class Command {
  readonly child: ChildProcess;
  /** Resolves with the exit code, or the signal's name. */
  readonly exited: Promise<number | string>;
  stdout = "";
  stderr = "";
  readonly #news = new Condition();
  readonly #isKept: boolean;
  #servicePid: number | null = null;

  constructor(program: string, args: readonly string[], { env = {}, cwd = REPOSITORY }: CommandOptions = {}) {
    this.#isKept = path.basename(program) === "millrace" && /^(?:serve|start)$/.test(args[0] ?? "");
    this.child = spawn(program, args, {
      cwd,
      env: { ...plainEnvironment(), ...env },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    this.child.stdout?.on("data", (data) => {
      this.stdout += String(data);
      this.#news.notify();
    });
    this.child.stderr?.on("data", (data) => {
      this.stderr += String(data);
      this.#news.notify();
    });
    const title = `${path.basename(program)} ${args.join(" ")}`.slice(0, 200);
    const silence = explains(() => `${title} printed:\n${(this.stdout + this.stderr).slice(-8_000)}`);
    this.exited = new Promise((resolve, reject) => {
      this.child.once("error", reject);
      // `close`, not `exit`: all that was printed has been read.
      this.child.once("close", (code, signal) => {
        resolve(signal ?? code ?? "no code");
        this.#news.notify();
      });
    });
    onTestFinished(async () => {
      silence();
      if (groupMembers(this.group).length > 0) process.kill(-this.group, "SIGKILL");
      await this.exited;
    });
  }

  /** Of the process that does the work: `serve` and `start` run the service below a shell that starts it again. */
  get pid(): number {
    if (this.#isKept) this.#servicePid = childrenOf(this.group).find(isNode) ?? this.#servicePid;
    return this.#servicePid ?? this.group;
  }

  /** Of the process that was started, which leads all of them. */
  get group(): number {
    return this.child.pid ?? 0;
  }

  /** Waits for a line on stdout or stderr; fails with all that was printed when it does not come. */
  async printed(pattern: RegExp): Promise<RegExpExecArray> {
    const find = (): RegExpExecArray | null => pattern.exec(this.stdout) ?? pattern.exec(this.stderr);
    const isOver = (): boolean => this.child.exitCode !== null || this.child.signalCode !== null;
    await until(`${pattern}`, () => find() !== null || isOver(), this.#news);
    const found = find();
    if (!found) throw new Error(`never printed ${pattern}:\n${this.stdout}\n${this.stderr}`);
    return found;
  }

  /** Waits until it has a connection to something. */
  async connects(): Promise<void> {
    const isOver = (): boolean => this.child.exitCode !== null || this.child.signalCode !== null;
    await until("it connects", () => isOver() || isConnected(this.pid));
    if (isOver()) throw new Error(`it is over:\n${this.stdout}\n${this.stderr}`);
  }

  /** Sends a signal to the whole group, as a terminal does for Ctrl-C. */
  signal(name: NodeJS.Signals): void {
    process.kill(-this.group, name);
  }

  /** Ctrl-C, and the exit that follows. */
  async interrupt(): Promise<number | string> {
    this.signal("SIGINT");
    return await this.exited;
  }
}

/** Runs a command to its end. */
export async function run(
  program: string,
  args: readonly string[],
  options: CommandOptions = {},
): Promise<{ code: number | string; stdout: string; stderr: string }> {
  const command = new Command(program, args, options);
  const code = await command.exited;
  return { code, stdout: command.stdout, stderr: command.stderr };
}

/** A started service, read from the line it logs when it is up. */
export type Served = { readonly command: Command; readonly apiUrl: string; readonly baseUrl: string };

/** `millrace serve` on a data directory, on any free ports unless `env` says otherwise. */
export async function serve(dataDir: string, env: Record<string, string> = {}): Promise<Served> {
  // One that is killed leaves its sockets behind.
  onTestFinished(() => rmSync(runtimeDir(dataDir), { recursive: true, force: true }));
  const command = new Command(MILLRACE, ["serve"], {
    env: { ...serviceEnvironment(dataDir), MILLRACE_ISOLATION: ISOLATION, ...env },
  });
  const [line] = await command.printed(/^.*"millrace is up".*$/m);
  const { apiUrl, baseUrl } = JSON.parse(line) as { apiUrl: string; baseUrl: string };
  return { command, apiUrl, baseUrl };
}

/** What `bootstrap --json` prints. */
export type BootstrapFields = { project_id: string; token: string; api_url: string; base_url: string };

/** `millrace bootstrap --json` on a data directory. */
export async function bootstrap(
  dataDir: string,
  env: Record<string, string> = {},
): Promise<{ line: string; fields: BootstrapFields }> {
  const { code, stdout, stderr } = await run(MILLRACE, ["bootstrap", "--json"], {
    env: { MILLRACE_DATA_DIR: dataDir, ...env },
  });
  if (code !== 0) throw new Error(`bootstrap ended with ${code}: ${stderr}`);
  return { line: stdout, fields: JSON.parse(stdout) as BootstrapFields };
}

/** What `bootstrap` tells, asked for in this process: for tests whose subject is not the command, which takes a second. */
export async function installed(dataDir: string, env: Record<string, string> = {}): Promise<BootstrapFields> {
  const { settings } = readSettings({ flags: { dataDir }, env });
  if (!existsSync(dataDir)) await prepareDatabase(settings);
  const { projectId, token, apiUrl, baseUrl } = await askOperator(settings, "bootstrap");
  return { project_id: projectId, token, api_url: apiUrl, base_url: baseUrl };
}

/** The settings for a service beside others. */
export function serviceEnvironment(dataDir: string): Record<string, string> {
  return { MILLRACE_DATA_DIR: dataDir, MILLRACE_API_PORT: "0", MILLRACE_BASE_PORT: "0" };
}

/** A directory of the test's own; when the test is over nothing may still work in it. */
export function scratchDirectory(): string {
  const directory = mkdtempSync(path.join(tmpdir(), "millrace-cli-"));
  onTestFinished(async () => {
    await assertNothingLeft(directory);
    rmSync(directory, { recursive: true, force: true });
  });
  return directory;
}

/** A clone of the repository that a test may change; it shares the installed packages. */
export function repositoryCopy(): string {
  const directory = scratchDirectory();
  for (const name of [
    "bin",
    "examples",
    "python",
    "scripts",
    "docs",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "src",
    "web",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
  ]) {
    cpSync(path.join(REPOSITORY, name), path.join(directory, name), { recursive: true });
  }
  symlinkSync(path.join(REPOSITORY, "node_modules"), path.join(directory, "node_modules"));
  return directory;
}

/** The living processes of a group. */
export function groupMembers(group: number): number[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => {
      try {
        const [state, , pgrp] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
        return Number(pgrp) === group && state !== "Z";
      } catch {
        return false; // It ended while we looked.
      }
    });
}

/** Whether a process has a TCP connection. */
function isConnected(pid: number): boolean {
  try {
    const sockets = new Set(descriptorsOf(pid).values());
    return tcpRows().some(
      ([, , , state, , , , , , inode]) => state === "01" && sockets.has(`socket:[${inode}]`),
    );
  } catch {
    return false; // It has ended.
  }
}

/** What the kernel tells of IPv4 sockets: number, local and remote address, state, and so on. */
function tcpRows(): string[][] {
  const rows = readFileSync("/proc/net/tcp", "utf8").split("\n").slice(1);
  return rows.map((row) => row.trim().split(/\s+/));
}

/** Whether a process runs Node. */
function isNode(pid: number): boolean {
  try {
    return path.basename(readlinkSync(`/proc/${pid}/exe`)) === "node";
  } catch {
    return false; // It ended while we looked.
  }
}

/** Addresses that something listens on at a port, as the kernel writes them; IPv4 only. */
export function listenersOn(port: number): string[] {
  const hex = port.toString(16).toUpperCase().padStart(4, "0");
  return tcpRows()
    .filter(([, local = "", , state]) => state === "0A" && local.endsWith(`:${hex}`))
    .map(([, local = ""]) => local.split(":")[0] ?? "");
}

/** Nothing of the machine's own Millrace settings, and none of the test runner's Node options. */
export function plainEnvironment(): Record<string, string> {
  const { PATH = "", HOME = "/", TMPDIR } = process.env;
  // Each test starts the command line anew; with its code compiled before it takes half the time.
  const cache = path.join(REPOSITORY, ".cache", "node");
  // Installed, as far as hints can tell: they say `millrace`, and not where this one is.
  const searchPath = `${path.join(BUILT_PACKAGE, "bin")}${path.delimiter}${PATH}`;
  return { PATH: searchPath, HOME, NODE_COMPILE_CACHE: cache, ...(TMPDIR !== undefined && { TMPDIR }) };
}
