import { copyFile, rm } from "node:fs/promises";
import path from "node:path";
import { Client } from "pg";
import { onTestFinished } from "vitest";
import { ISOLATION, internals, testSettings } from "./test-settings.ts";
import { createLog } from "../../src/kit/log.ts";
import { runtimeDir } from "../../src/kit/runtime-dir.ts";
import { startService } from "../../src/main.ts";
import type { RunRecord } from "../../src/shapes/runs.ts";
import { type Calls, callsThrough, operationNamed } from "../../src/store/operations.ts";
import { openSession } from "../../src/store/sqlite/session.ts";
import { openStore } from "../../src/store/store.ts";
import { Command, MILLRACE, serviceEnvironment } from "./command-line.ts";
import type { TestDatabase } from "./databases.ts";
import { assertNothingLeft } from "./leak-check.ts";
import { type TestApp, writeApp } from "./service.ts";
import { until } from "./until.ts";

const YEAR_MS = 365 * 24 * 3_600_000;

/** A run's record with its result, as the gateway answers it. */
export type FoundRun = RunRecord & { readonly result?: unknown };

export type PostOptions = {
  readonly functionName?: string;
  /** With its question mark. */
  readonly query?: string;
  readonly headers?: Record<string, string>;
};

type FetchOptions = {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
};

/** Does something with the database itself, if it is a Postgres. */
export async function inPostgres(
  { databaseUrl }: TestDatabase,
  use: (client: Client) => Promise<unknown>,
): Promise<void> {
  if (databaseUrl === null) return;
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await use(client);
  } finally {
    await client.end();
  }
}

/** Apart from those of its siblings, so that each tells what its replicas have done. */
function volumesOf(dataDir: string): string {
  return path.join(dataDir, "volumes");
}

/** A service in a process of its own that is started on the same data again and again, however it ended. */
export class KillableService {
  readonly database: TestDatabase;
  readonly appNumber: number;
  readonly projectId: string;
  readonly token: string;
  readonly #env: Record<string, string>;
  #command: Command | null = null;
  #apiUrl = "";
  #baseUrl = "";

  private constructor(
    database: TestDatabase,
    app: Pick<KillableService, "appNumber" | "projectId" | "token">,
    env: Record<string, string>,
  ) {
    // prettier-ignore
    this.database = database;
    this.appNumber = app.appNumber;
    this.projectId = app.projectId;
    this.token = app.token;
    this.#env = env;
  }

  /** Deploys one app, `app`, into an empty database; nothing runs yet. */
  static async deploy(
    database: TestDatabase,
    app: TestApp,
    env: Record<string, string> = {},
    hasSiblings = true,
  ): Promise<KillableService> {
    const { dataDir, databaseUrl } = database;
    // Where its siblings find what apps are made of.
    const blobs = path.join(dataDir, "shared");
    const shared = { databaseUrl, blobs, volumes: volumesOf(dataDir) };
    const flags = {
      dataDir,
      apiPort: 0,
      basePort: 0,
      ...(databaseUrl !== null && (hasSiblings ? shared : { databaseUrl })),
    };
    const settings = testSettings(flags);
    const service = await startService(settings, { log: createLog("silent") });
    const sources = path.join(dataDir, "sources");
    const { app: deployed } = await service.install(await writeApp(sources, "app", app));
    const { projectId } = service.owner;
    // Longer than any jump of the clock.
    const expiresAt = Date.now() + 30 * YEAR_MS;
    const { token } = await service.tokens.issue({ projectId, name: "test", role: "admin", expiresAt });
    await service.stop();
    await rm(sources, { recursive: true });
    onTestFinished(async () => {
      await assertNothingLeft(dataDir);
      // One that is killed leaves its sockets behind.
      await rm(runtimeDir(dataDir), { recursive: true, force: true });
    });
    const place = databaseUrl === null || !hasSiblings ? {} : { MILLRACE_BLOBS: blobs };
    return new KillableService(
      database,
      { appNumber: deployed.number, projectId, token },
      // What it has elsewhere ends with it, unless a test says otherwise.
      { ...place, ...internals({ keepSeats: false }), ...env },
    );
  }

  /** Another service of the same installation: the same Postgres, a data directory of its own. */
  async sibling(dataDir: string): Promise<KillableService> {
    // Secrets in the database are sealed with it.
    await copyFile(path.join(this.database.dataDir, "master.key"), path.join(dataDir, "master.key"));
    onTestFinished(() => assertNothingLeft(dataDir));
    return new KillableService({ ...this.database, dataDir }, this, this.#env);
  }

  /** The same installation, restored in another place. */
  on(database: TestDatabase): KillableService {
    onTestFinished(() => assertNothingLeft(database.dataDir));
    return new KillableService(database, this, this.#env);
  }

  /** Where its replicas of the app keep files. */
  get storageDir(): string {
    return path.join(this.database.dataDir, "storage", this.projectId);
  }

  /** Of the service that was started last. */
  get baseUrl(): string {
    return this.#baseUrl;
  }

  /** Where the app is called. */
  get appUrl(): string {
    return `${this.#apiUrl}/v4/${this.projectId}/app`;
  }

  get command(): Command {
    if (!this.#command) throw new Error("the service was never started");
    return this.#command;
  }

  /** `millrace serve`, or another program that starts the service; false if it ended before it was up. */
  async start(program: readonly [string, ...string[]] = [MILLRACE, "serve"], env = {}): Promise<boolean> {
    const { dataDir, databaseUrl } = this.database;
    const [name, ...args] = program;
    const url = databaseUrl === null ? {} : { MILLRACE_DATABASE_URL: databaseUrl };
    const volumes = "MILLRACE_BLOBS" in this.#env ? { MILLRACE_VOLUMES: volumesOf(dataDir) } : {};
    const command = new Command(name, args, {
      env: {
        ...serviceEnvironment(dataDir),
        MILLRACE_ISOLATION: ISOLATION,
        ...url,
        ...volumes,
        ...this.#env,
        ...env,
      },
    });
    this.#command = command;
    const line = await command.printed(/^.*"millrace is up".*$/m).catch((error: unknown) => {
      if (command.child.exitCode === null && command.child.signalCode === null) throw error;
      return null;
    });
    if (!line) return false;
    const urls = JSON.parse(line[0]) as { apiUrl: string; baseUrl: string };
    this.#apiUrl = urls.apiUrl;
    this.#baseUrl = urls.baseUrl;
    return true;
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
    if (code !== 0) throw new Error(`the service ended with ${code}: ${this.command.stderr}`);
  }

  /** The store as the service left it; the service must not run. Only for reading. */
  async withStore<T>(use: (store: Calls) => Promise<T>): Promise<T> {
    const { databaseUrl, dataDir } = this.database;
    if (databaseUrl === null) {
      // On this thread, and as a reader: what a dead one left in SQLite's log stays there for the next service.
      const session = await openSession("read", path.join(dataDir, "millrace.db"));
      const calls = callsThrough((name, packed) => operationNamed(name).run(session, packed as never));
      try {
        return await use(calls);
      } finally {
        await session.db.destroy();
      }
    }
    await this.#untilForgotten();
    const store = await openStore(this.database);
    try {
      return await use(store);
    } finally {
      await store.close();
    }
  }

  /** Calls a function. */
  async post(body: object, { functionName = "run", query = "", headers = {} }: PostOptions = {}) {
    return await this.#fetch(`/${functionName}${query}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    });
  }

  /** The run's record, with the result of an ended one; null when there is none. */
  async find(id: string): Promise<FoundRun | null> {
    const { status, json } = await this.#fetch(`/runs/${id}`);
    if (status !== 200 && status !== 404) throw new Error(`${status}: ${JSON.stringify(json)}`);
    return status === 200 ? (json as FoundRun) : null;
  }

  /** The run's record when it has ended. */
  async ended(id: string): Promise<FoundRun> {
    let found: FoundRun | null = null;
    const isFinal = async (): Promise<boolean> => {
      found = await this.find(id);
      return found !== null && found.status !== "queued" && found.status !== "running";
    };
    await until(`the run ${id} ends`, isFinal).catch((error: unknown) => {
      throw new Error(`${String(error)}: ${JSON.stringify(found)}`);
    });
    return found!;
  }

  /** What a dead service had sent, Postgres may still be doing. */
  async #untilForgotten(): Promise<void> {
    const others =
      "select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    await inPostgres(this.database, async (client) => {
      await until(
        "the server has ended its sessions",
        async () => (await client.query(others)).rowCount === 0,
      );
    });
  }

  async #fetch(place: string, { headers = {}, ...init }: FetchOptions = {}) {
    const response = await fetch(`${this.appUrl}${place}`, {
      ...init,
      headers: { authorization: `Bearer ${this.token}`, ...headers },
    });
    // oxlint-disable-next-line no-explicit-any
    const json: any = await response.json();
    return { status: response.status, headers: response.headers, json };
  }
}
