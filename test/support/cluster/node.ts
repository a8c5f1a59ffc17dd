import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { onTestFinished } from "vitest";
import { runtimeDir } from "../../../src/kit/runtime-dir.ts";
import { Command, MILLRACE, testProgram } from "../command-line.ts";
import { assertNothingLeft } from "../leak-check.ts";
import type { SilentProxy } from "../silent-proxy.ts";
import { ISOLATION, internals } from "../test-settings.ts";
import { until } from "../until.ts";

export type ClusterNodeParts = {
  /** What the database knows it by: it writes under a role of this name. */
  readonly name: string;
  readonly dataDir: string;
  readonly apiPort: number;
  readonly basePort: number;
  /** Its way to Postgres. */
  readonly database: SilentProxy;
  /** The others' way to it. */
  readonly peers: SilentProxy;
  readonly env: Readonly<Record<string, string>>;
};

/** One service of a cluster, in a process of its own that can be ended in any way and started again. */
export class ClusterNode {
  readonly name: string;
  readonly dataDir: string;
  readonly database: SilentProxy;
  readonly peers: SilentProxy;
  readonly apiUrl: string;
  readonly baseUrl: string;
  readonly #env: Record<string, string>;
  #command: Command | null = null;

  constructor({ name, dataDir, apiPort, basePort, database, peers, env }: ClusterNodeParts) {
    this.name = name;
    this.dataDir = dataDir;
    this.database = database;
    this.peers = peers;
    this.apiUrl = `http://127.0.0.1:${apiPort}`;
    this.baseUrl = `http://127.0.0.1:${basePort}`;
    this.#env = {
      MILLRACE_DATA_DIR: dataDir,
      MILLRACE_API_PORT: String(apiPort),
      MILLRACE_BASE_PORT: String(basePort),
      MILLRACE_DATABASE_URL: database.url,
      MILLRACE_ISOLATION: ISOLATION,
      MILLRACE_CONTAINER_ENGINE: "none",
      ...internals({ nodeName: name }),
      ...env,
    };
    mkdirSync(dataDir, { recursive: true });
    // Which apps are whose goes by this; two or three nodes of these names share the first apps evenly.
    writeFileSync(path.join(dataDir, "directory-id"), `00000000-0000-4000-8000-00000000250${name.at(-1)}\n`);
    onTestFinished(async () => {
      await assertNothingLeft(dataDir);
      // One that is killed leaves its sockets behind.
      rmSync(runtimeDir(dataDir), { recursive: true, force: true });
    });
  }

  get command(): Command {
    if (!this.#command) throw new Error(`${this.name} was never started`);
    return this.#command;
  }

  /** The id that it has since its last start. */
  get id(): string {
    const kept = JSON.parse(readFileSync(path.join(this.dataDir, "owners.json"), "utf8")) as {
      owners: string[];
    };
    return kept.owners.at(-1) ?? "";
  }

  /** Secrets in the database are sealed with the key of the first. */
  takeKeyOf({ dataDir }: ClusterNode): void {
    copyFileSync(path.join(dataDir, "master.key"), path.join(this.dataDir, "master.key"));
  }

  /** Resolves when it is up. */
  async start(): Promise<void> {
    await this.#begin(new Command(MILLRACE, ["serve"], { env: this.#env }));
  }

  /** Starts it with a clock that `setClock` sets. */
  async startWithClock(): Promise<void> {
    const env = { ...this.#env, SERVICE_CLOCK: this.#clockFile };
    await this.#begin(new Command(process.execPath, [testProgram("clocked-service")], { env }));
  }

  /** Sets its date so far ahead of the true one; no time passes by that. */
  async setClock(aheadMs: number): Promise<void> {
    writeFileSync(this.#clockFile, JSON.stringify({ aheadMs, skippedMs: 0 }));
    const moves = this.command.stdout.match(/^clock moved/gm)?.length ?? 0;
    process.kill(this.command.pid, "SIGUSR2");
    await this.command.printed(new RegExp(`^clock moved ${moves + 1}$`, "m"));
  }

  get #clockFile(): string {
    return path.join(this.dataDir, "clock");
  }

  async #begin(command: Command): Promise<void> {
    this.#command = command;
    await command.printed(/^.*"millrace is up".*$/m);
  }

  /** Whether a load balancer may send calls to it. */
  async isReady(): Promise<boolean> {
    const response = await fetch(`${this.baseUrl}/readyz`).catch(() => null);
    await response?.body?.cancel();
    return response?.status === 200;
  }

  /** kill -9. */
  async kill(): Promise<void> {
    process.kill(this.command.pid, "SIGKILL");
    await this.command.exited;
  }

  /** An orderly stop. */
  async stop(): Promise<void> {
    process.kill(this.command.pid, "SIGTERM");
    const code = await this.command.exited;
    if (code !== 0) throw new Error(`${this.name} ended with ${code}: ${this.command.stderr.slice(-2_000)}`);
  }

  /** It does nothing any more, and nothing of it is closed. Its apps' processes go on. */
  freeze(): void {
    process.kill(this.command.pid, "SIGSTOP");
  }

  thaw(): void {
    process.kill(this.command.pid, "SIGCONT");
  }

  async untilReady(): Promise<void> {
    await until(`${this.name} is ready`, () => this.isReady());
  }
}
