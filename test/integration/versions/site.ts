import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { Catalog } from "../../../src/apps/catalog.ts";
import type { AppLogLine, Candidate, LiveApp } from "../../../src/apps/catalog.ts";
import { Secrets } from "../../../src/apps/secrets.ts";
import { loadAppConfig } from "../../../src/config/app-config.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import { Seal } from "../../../src/kit/seal.ts";
import type { App, Version } from "../../../src/model/app.ts";
import type { Outcome } from "../../../src/model/outcome.ts";
import { Call } from "../../../src/replicas/call.ts";
import { Home } from "../../../src/replicas/home.ts";
import type { Pool } from "../../../src/replicas/pool.ts";
import { processEngine } from "../../../src/replicas/process/engine.ts";
import { findInterpreter } from "../../../src/replicas/process/interpreter.ts";
import { openStore } from "../../../src/store/store.ts";
import type { Store } from "../../../src/store/store.ts";
import { assertNothingLeft, processesIn } from "../../support/leak-check.ts";
import { CPUS, writeApp } from "../../support/service.ts";
import type { TestApp } from "../../support/service.ts";

export const PROJECT = "p-versions";

/** Every version of it says which it is, and waits for a file where it is asked to. */
export const app = (version: string, toml = "", more = ""): TestApp => ({
  toml,
  main: `
import os, time
VERSION = ${JSON.stringify(version)}
${more}
def run():
    return VERSION

def hold(gate):
    while not os.path.exists(os.path.join(os.environ["PERSISTENT_STORAGE"], gate)):
        time.sleep(0.005)
    return VERSION

def env(name):
    return os.environ.get(name)
`,
});

/** A catalogue on a store and a directory of its own, with real replicas; it can be opened again. */
export class CatalogSite {
  readonly directory: string;
  readonly dataDir: string;
  readonly logs: AppLogLine[] = [];
  readonly store: Store;
  readonly secrets: Secrets;
  readonly #python: string;
  #home: Home | null = null;
  #catalog: Catalog | null = null;

  private constructor(store: Store, python: string, directory: string) {
    this.directory = directory;
    this.dataDir = path.join(directory, "data");
    this.store = store;
    this.#python = python;
    this.secrets = new Secrets(store, new Seal(Buffer.alloc(32, 7)), systemClock);
  }

  static async open(): Promise<CatalogSite> {
    const directory = mkdtempSync(path.join(tmpdir(), "millrace-versions-"));
    const dataDir = path.join(directory, "data");
    const store = await openStore({ databaseUrl: null, dataDir });
    const { path: python } = await findInterpreter(process.env["MILLRACE_PYTHON"] ?? "python3");
    const site = new CatalogSite(store, python, directory);
    onTestFinished(async () => {
      await site.close();
      await store.close();
      await assertNothingLeft(directory);
      await rm(directory, { recursive: true, force: true });
    });
    await store.projects.insert({ id: PROJECT, name: "versions", createdAt: 0 });
    await site.start();
    return site;
  }

  get catalog(): Catalog {
    if (!this.#catalog) throw new Error("it is closed");
    return this.#catalog;
  }

  async start(): Promise<void> {
    this.#home = await Home.open(path.join(this.directory, "run"));
    this.#catalog = await Catalog.open({
      store: this.store,
      engine: processEngine(this.#python, systemClock),
      home: this.#home,
      secrets: this.secrets,
      dataDir: this.dataDir,
      clock: systemClock,
      log: createLog(process.env["TEST_LOG"] ?? "silent"),
      onLog: (line) => this.logs.push(line),
    });
  }

  async close(): Promise<void> {
    await this.#catalog?.close({ kind: "refused", code: "draining" });
    await this.#home?.close();
    this.#catalog = null;
    this.#home = null;
  }

  /** Stores a version and prepares it, untried. */
  async prepare(name: string, source: TestApp): Promise<Candidate> {
    const createdAt = Date.now();
    const stored = await this.store.apps.insertOrFind({ projectId: PROJECT, name, createdAt });
    const id = randomUUID();
    const bundleDir = await writeApp(path.join(this.dataDir, "bundles", PROJECT, name, id), name, source);
    const { config } = loadAppConfig(bundleDir, { host: { cpuCount: CPUS } });
    const version = await this.store.versions.insert({
      id,
      appNumber: stored.number,
      config,
      bundleDir,
      createdAt,
    });
    return this.catalog.prepare(stored, version);
  }

  /** Deploys a version, tried by one replica. */
  async deploy(name: string, source: TestApp): Promise<LiveApp> {
    const candidate = await this.prepare(name, source);
    expect(await candidate.check(NEVER)).toMatchObject({ kind: "ready" });
    return await this.catalog.activate(candidate);
  }

  async app(name: string): Promise<App> {
    const found = await this.store.apps.find({ projectId: PROJECT, name });
    if (!found) throw new Error(`there is no app ${name}`);
    return found;
  }

  /** What the app serves. */
  async current(name: string): Promise<LiveApp> {
    const live = this.catalog.byNumber((await this.app(name)).number);
    if (!live) throw new Error(`${name} takes no calls`);
    return live;
  }

  /** Calls the app as a caller would; gives how that ended. */
  call(name: string, functionName = "run", args: object = {}): Promise<Outcome> {
    const live = this.catalog.find(PROJECT, name);
    if (!live) throw new Error(`${name} takes no calls`);
    return callOn(live.pool, functionName, args);
  }

  async value(name: string, functionName = "run", args: object = {}): Promise<unknown> {
    return valueOf(await this.call(name, functionName, args));
  }

  /** Lets go what waits for that file. */
  open(gate: string): void {
    writeFileSync(path.join(this.dataDir, "storage", PROJECT, gate), "");
  }

  /** The processes that work in a version's bundle. */
  processes({ bundleDir }: Version): number {
    return existsSync(bundleDir) ? processesIn(bundleDir).length : 0;
  }

  /** The versions of an app whose bundles are there. */
  bundles(name: string): string[] {
    const folder = path.join(this.dataDir, "bundles", PROJECT, name);
    return existsSync(folder) ? readdirSync(folder) : [];
  }
}

export const NEVER = new AbortController().signal;

export function callOn(pool: Pool, functionName = "run", args: object = {}): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const body = Buffer.from(JSON.stringify(args));
  pool.submit(new Call(randomUUID(), functionName, body, { onEnd: resolve }));
  return promise;
}

/** What a call returned; throws when it ended otherwise. */
export function valueOf(outcome: Outcome): unknown {
  if (outcome.kind !== "returned") throw new Error(`it ended as ${JSON.stringify(outcome)}`);
  return JSON.parse(outcome.json.toString());
}
