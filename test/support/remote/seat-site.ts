import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import type { testDatabases } from "../databases.ts";
import { freePort } from "../free-port.ts";
import { writeApp } from "../service.ts";
import type { TestApp } from "../service.ts";
import { REPOSITORY } from "../source-files.ts";
import { seatFolder } from "./remote-service.ts";
import type { SeatServiceOrder } from "./seat-service.ts";

const SERVICE = path.join(REPOSITORY, "test", "support", "remote", "seat-service.ts");

type Up = {
  readonly url: string;
  readonly baseUrl: string;
  readonly projectId: string;
  readonly token: string;
};
/** The pids of agents. */
type Agents = { readonly begun: readonly number[]; readonly adopted: readonly number[] };

/** A service in a process of its own, whose seats are agents on this machine. */
export class SeatService {
  readonly child: ChildProcess;
  readonly #lines: AsyncIterableIterator<string>;
  readonly #up: Up;

  private constructor(child: ChildProcess, lines: AsyncIterableIterator<string>, up: Up) {
    this.child = child;
    this.#lines = lines;
    this.#up = up;
  }

  static async start(order: SeatServiceOrder): Promise<SeatService> {
    const child = spawn(process.execPath, [SERVICE, JSON.stringify(order)], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    return new SeatService(child, lines, await next<Up>(lines));
  }

  /** Calls a function of the app, or asks for a run of it. */
  // oxlint-disable-next-line no-explicit-any
  async call(path_ = "run", body: object | null = {}, query = ""): Promise<{ status: number; json: any }> {
    return await this.#fetch(`${this.#up.url}/${path_}${query}`, body);
  }

  /** Asks the management API of the project. */
  // oxlint-disable-next-line no-explicit-any
  async manage(path_: string, body: object, method = "PUT"): Promise<{ status: number; json: any }> {
    return await this.#fetch(this.#up.baseUrl + path_.replace("PROJECT", this.#up.projectId), body, method);
  }

  async agents(): Promise<Agents> {
    this.child.stdin?.write("agents\n");
    return await next<Agents>(this.#lines);
  }

  async kill(): Promise<void> {
    this.child.kill("SIGKILL");
    await once(this.child, "exit");
  }

  async stop(): Promise<void> {
    this.child.stdin?.write("stop\n");
    await once(this.child, "exit");
  }

  async #fetch(url: string, body: object | null, method = body ? "POST" : "GET") {
    const response = await fetch(url, {
      method,
      headers: { authorization: `Bearer ${this.#up.token}`, "content-type": "application/json" },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, json: text === "" ? null : (JSON.parse(text) as unknown) };
  }
}

/** What such services are started on, again and again, or side by side. */
export class SeatSite {
  readonly folder: string;
  readonly directory: string;
  readonly #flags: Record<string, unknown>;
  readonly #app: string;
  readonly #graceMs: number;
  readonly #seatPort: number;

  private constructor(
    directory: string,
    folder: string,
    app: string,
    flags: Record<string, unknown>,
    ports: { readonly graceMs: number; readonly seatPort: number },
  ) {
    this.directory = directory;
    this.folder = folder;
    this.#app = app;
    this.#flags = flags;
    this.#graceMs = ports.graceMs;
    this.#seatPort = ports.seatPort;
  }

  static async make(
    databases: ReturnType<typeof testDatabases>,
    app: TestApp,
    graceMs = 60_000,
  ): Promise<SeatSite> {
    const directory = await mkdtemp(path.join(tmpdir(), "millrace-test-"));
    onTestFinished(() => rm(directory, { recursive: true, force: true }));
    const folder = await seatFolder();
    const source = await writeApp(path.join(directory, "app"), "app", app);
    const { databaseUrl } = await databases.fresh("postgres");
    const flags = { databaseUrl, blobs: path.join(directory, "shared") };
    return new SeatSite(directory, folder, source, flags, { graceMs, seatPort: await freePort() });
  }

  /** The first deploys the app; those after it find it. */
  async start(isFirst: boolean, flags: Record<string, unknown> = {}): Promise<SeatService> {
    return await SeatService.start({
      directory: this.directory,
      folder: this.folder,
      graceMs: this.#graceMs,
      flags: { ...this.#flags, seatPort: String(this.#seatPort), ...flags },
      app: isFirst ? this.#app : null,
    });
  }

  /** Another node of the same installation. */
  async startBeside(): Promise<SeatService> {
    const directory = path.join(this.directory, "beside");
    await mkdir(path.join(directory, "data"), { recursive: true });
    await copyFile(
      path.join(this.directory, "data", "master.key"),
      path.join(directory, "data", "master.key"),
    );
    return await SeatService.start({
      directory,
      folder: this.folder,
      graceMs: this.#graceMs,
      flags: { ...this.#flags, seatPort: String(await freePort()) },
      app: null,
    });
  }
}

async function next<T>(lines: AsyncIterableIterator<string>): Promise<T> {
  const { value, done } = await lines.next();
  if (done) throw new Error("the service has ended");
  return JSON.parse(value) as T;
}
