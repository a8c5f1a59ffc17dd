import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { copyFile, mkdir, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { winnerOf } from "../../../src/nodes/rendezvous.ts";
import { openStore } from "../../../src/store/store.ts";
import type { TestDatabase, testDatabases } from "../databases.ts";
import { plainEnvironment, testProgram } from "../command-line.ts";
import { freePort } from "../free-port.ts";
import { type TestApp, writeApp } from "../service.ts";
import { until } from "../until.ts";
import { seatFolder } from "./remote-service.ts";
import type { SeatServiceOrder } from "./seat-service.ts";

type Up = {
  readonly url: string;
  readonly baseUrl: string;
  readonly projectId: string;
  readonly token: string;
};
/** The pids of agents. */
type Agents = { readonly begun: readonly number[]; readonly adopted: readonly number[] };
// oxlint-disable-next-line no-explicit-any
type Told = { readonly status: number; readonly json: any };

/** A service in a process of its own, whose seats are agents on this machine. */
export class SeatService {
  readonly directory: string;
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterableIterator<string>;
  readonly #up: Up;

  private constructor(directory: string, child: ChildProcess, lines: AsyncIterableIterator<string>, up: Up) {
    this.directory = directory;
    this.#child = child;
    this.#lines = lines;
    this.#up = up;
  }

  static async start(order: SeatServiceOrder): Promise<SeatService> {
    const program = testProgram("remote/seat-service");
    const child = spawn(process.execPath, [program, JSON.stringify(order)], {
      env: { ...process.env, ...plainEnvironment() },
      stdio: ["pipe", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    return new SeatService(order.directory, child, lines, await next<Up>(lines));
  }

  get projectId(): string {
    return this.#up.projectId;
  }

  get nodeId(): string {
    const file = path.join(this.directory, "data", "owners.json");
    const { owners } = JSON.parse(readFileSync(file, "utf8")) as { owners: string[] };
    return owners.at(-1) ?? "";
  }

  /** Calls a function of the app, or asks for a run of it. */
  async call(what = "run", body: object | null = {}, query = ""): Promise<Told> {
    return await this.#fetch(`${this.#up.url}/${what}${query}`, body);
  }

  /** Asks the management API. */
  async manage(method: string, what: string, body: object): Promise<Told> {
    return await this.#fetch(this.#up.baseUrl + what.replace("PROJECT", this.#up.projectId), body, method);
  }

  async agents(): Promise<Agents> {
    this.#child.stdin?.write("agents\n");
    return await next<Agents>(this.#lines);
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await once(this.#child, "exit");
  }

  /** It does nothing any more, or goes on. */
  setFrozen(isFrozen: boolean): void {
    this.#child.kill(isFrozen ? "SIGSTOP" : "SIGCONT");
  }

  async stop(): Promise<void> {
    this.#child.stdin?.write("stop\n");
    await once(this.#child, "exit");
  }

  async #fetch(url: string, body: object | null, method = body ? "POST" : "GET"): Promise<Told> {
    const response = await fetch(url, {
      method,
      headers: { authorization: `Bearer ${this.#up.token}`, "content-type": "application/json" },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, json: text === "" ? null : JSON.parse(text) };
  }
}

/** What such services are started on, again and again, or side by side. */
export class SeatSite {
  /** Where agents keep their files. */
  readonly folder: string;
  readonly #directory: string;
  readonly #database: TestDatabase;
  readonly #order: Pick<SeatServiceOrder, "folder" | "graceMs" | "flags">;
  readonly #app: string;

  private constructor(
    directory: string,
    database: TestDatabase,
    app: string,
    order: Pick<SeatServiceOrder, "folder" | "graceMs" | "flags">,
  ) {
    this.folder = order.folder;
    this.#directory = directory;
    this.#database = database;
    this.#app = app;
    this.#order = order;
  }

  static async make(
    databases: ReturnType<typeof testDatabases>,
    app: TestApp,
    graceMs = 60_000,
  ): Promise<SeatSite> {
    const directory = await mkdtemp(path.join(tmpdir(), "millrace-test-"));
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    const folder = await seatFolder();
    const source = await writeApp(path.join(directory, "app"), "app", app);
    const database = await databases.fresh("postgres");
    const { databaseUrl } = database;
    const flags = {
      databaseUrl,
      blobs: path.join(directory, "shared"),
      seatUrl: `https://127.0.0.1:${await freePort()}`,
    };
    return new SeatSite(directory, database, source, { folder, graceMs, flags });
  }

  /** The first deploys the app; those after it find it. */
  async start(isFirst: boolean, flags: Record<string, unknown> = {}): Promise<SeatService> {
    return await SeatService.start({
      ...this.#order,
      directory: this.#directory,
      flags: { ...this.#order.flags, ...flags },
      app: isFirst ? this.#app : null,
    });
  }

  /** Another node of the same installation. */
  async startBeside(): Promise<SeatService> {
    const directory = path.join(this.#directory, "beside");
    const key = path.join("data", "master.key");
    await mkdir(path.join(directory, "data"), { recursive: true });
    await copyFile(path.join(this.#directory, key), path.join(directory, key));
    const flags = { ...this.#order.flags, seatUrl: `https://127.0.0.1:${await freePort()}` };
    return await SeatService.start({ ...this.#order, directory, flags, app: null });
  }

  /** Which of two nodes has the app, and which has not; it stays so. */
  async sides(one: SeatService, two: SeatService): Promise<{ owner: SeatService; other: SeatService }> {
    const store = await openStore(this.#database);
    let ownerId: string | null = null;
    try {
      await until("the app is where it belongs", async () => {
        const { living } = await store.nodes.list();
        const [place] = await store.appOwners.find([{ projectId: one.projectId, name: "app" }]);
        ownerId = place?.owner ?? null;
        return (
          living.length === 2 && place !== undefined && winnerOf(place.appNumber, living)?.id === ownerId
        );
      });
    } finally {
      await store.close();
    }
    return one.nodeId === ownerId ? { owner: one, other: two } : { owner: two, other: one };
  }
}

async function next<T>(lines: AsyncIterableIterator<string>): Promise<T> {
  const { value, done } = await lines.next();
  if (done) throw new Error("the service has ended");
  return JSON.parse(value) as T;
}
