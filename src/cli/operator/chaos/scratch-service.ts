import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ENV_PREFIX, envOf } from "../../../config/setting-keys.ts";
import { below } from "../../../host/processes.ts";
import { runtimeDir } from "../../../kit/runtime-dir.ts";
import { askService } from "../../ask-service.ts";
import type { Address } from "../../client/api.ts";
import { CliFailure } from "../../failure.ts";

const LOOK_MS = 50;
/** A start may take this long on a busy machine. */
const START_MS = 300_000;
/** The end of its log: enough to see why it did not start. */
const KEPT_CHARACTERS = 2_000;

/** A service in a process and a folder of its own, there to be killed; after `remove` nothing of it is left. */
export class ScratchService {
  readonly folder = realpathSync(mkdtempSync(path.join(tmpdir(), "millrace-scratch-")));
  readonly dataDir = path.join(this.folder, "data");
  readonly #folders = [runtimeDir(this.dataDir), this.folder];
  readonly #env: NodeJS.ProcessEnv;
  #child: ChildProcess | null = null;
  #log = "";

  /** `settings` are variables that it is started with, beside those that keep it apart. */
  constructor(
    python: string,
    settings: Readonly<Record<string, string>> = {},
    env: NodeJS.ProcessEnv = process.env,
  ) {
    // Without settings of another service: its data and its database are off limits.
    const others = Object.entries(env).filter(([name]) => !name.startsWith(ENV_PREFIX));
    this.#env = {
      ...Object.fromEntries(others),
      [envOf("data_dir")]: this.dataDir,
      [envOf("api_port")]: "0",
      [envOf("base_port")]: "0",
      [envOf("python")]: python,
      [envOf("log_level")]: "error",
      ...settings,
    };
    process.once("exit", this.#removeNow);
  }

  /** Starts it on what is in the folder, and resolves when it answers. */
  async start(signal: AbortSignal): Promise<Address> {
    // Not below `bin/millrace`: that would restart the service. In our process group: Ctrl-C ends it too.
    const child = spawn(process.execPath, [...process.execArgv, process.argv[1] ?? "", "serve"], {
      cwd: this.folder,
      env: this.#env,
      stdio: ["ignore", "ignore", "pipe"],
    });
    child.on("error", () => {}); // Without a process id it never answers.
    child.stderr.on("data", (data) => (this.#log = `${this.#log}${data}`.slice(-KEPT_CHARACTERS)));
    this.#child = child;
    const deadline = performance.now() + START_MS;
    while (isAlive(child) && performance.now() < deadline) {
      const asked = await askService(this.dataDir, "bootstrap");
      if (asked) return asked.result as Address;
      await sleep(LOOK_MS, undefined, { signal });
    }
    throw new CliFailure(
      `the service in ${this.folder} does not start: ${this.#log.trim() || "it says nothing"}`,
      { hint: "millrace doctor checks what a start depends on" },
    );
  }

  /** Kills the service at once; its replicas end by themselves. Resolves when it is dead, with its process id. */
  async kill(): Promise<number> {
    const child = this.#child;
    if (!child?.pid || !isAlive(child))
      throw new CliFailure(`the service died unexpectedly: ${this.#log.trim()}`);
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
    return child.pid;
  }

  /** Kills one of its replicas at once, by the process id that it has for itself; false when it is gone. */
  killReplica(ownId: number): boolean {
    const found = below(this.pid).living.find((pid) => ownIdOf(pid) === ownId);
    try {
      return found !== undefined && process.kill(found, "SIGKILL");
    } catch {
      return false;
    }
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Ends it, even during its start, and removes all that it left. */
  async remove(): Promise<void> {
    if (this.#child && isAlive(this.#child)) await this.kill();
    for (const folder of this.#folders) {
      // Replicas outlive the service by a moment, and may write still.
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    }
    process.off("exit", this.#removeNow);
  }

  /** For a second Ctrl-C, which waits for nothing. */
  readonly #removeNow = (): void => {
    this.#child?.kill("SIGKILL");
    for (const folder of this.#folders) rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  };
}

/** The id that a process has in the innermost namespace of its own; null if it is gone. */
function ownIdOf(pid: number): number | null {
  try {
    const ids = /^NSpid:\s+(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "";
    return Number(ids.split(/\s+/).at(-1));
  } catch {
    return null;
  }
}

function isAlive({ pid, exitCode, signalCode }: ChildProcess): boolean {
  return pid !== undefined && exitCode === null && signalCode === null;
}
