import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { type Candidate, Catalog, type LiveApp } from "../../../src/apps/catalog.ts";
import { Secrets } from "../../../src/apps/secrets.ts";
import { loadAppConfig } from "../../../src/config/app-config.ts";
import { artifactFolder, artifactId } from "../../../src/host/data-folders.ts";
import { StorageFolders } from "../../../src/host/storage/folders.ts";
import { createLog } from "../../../src/kit/log.ts";
import { Seal } from "../../../src/kit/seal.ts";
import type { App, Version } from "../../../src/model/app.ts";
import type { Outcome } from "../../../src/model/outcome.ts";
import { Call } from "../../../src/replicas/call.ts";
import { Home } from "../../../src/engines/home.ts";
import type { Pool } from "../../../src/replicas/pool.ts";
import { processEngine } from "../../../src/engines/local/engine.ts";
import { Ports } from "../../../src/engines/server/ports.ts";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { assertNothingLeft, processesIn } from "../../support/leak-check.ts";
import { CPUS, type TestApp, writeApp } from "../../support/service.ts";

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
import { OPEN_NETWORK } from "../../support/walls/open-network.ts";

/** What all tests of a file have in common: a store, a directory, a catalogue that can be opened again. */
class Ground {
  readonly directory: string;
  readonly dataDir: string;
  readonly clock = new SkippingClock();
  readonly store: Store;
  readonly secrets: Secrets;
  readonly #python: string;
  #home: Home | null = null;
  catalog: Catalog | null = null;

  constructor(directory: string, store: Store, python: string) {
    this.directory = directory;
    this.dataDir = dataDirIn(directory);
    this.store = store;
    this.#python = python;
    this.secrets = new Secrets(store, new Seal(Buffer.alloc(32, 7)), this.clock);
  }

  async start(): Promise<void> {
    const { store, secrets, dataDir, clock } = this;
    this.#home = await Home.open(path.join(this.directory, "run"));
    const storage = new StorageFolders(dataDir);
    this.catalog = await Catalog.open({
      store,
      storage,
      engine: processEngine({
        python: this.#python,
        dataDir,
        level: null,
        network: OPEN_NETWORK,
        storage,
        ports: new Ports(),
        clock,
      }),
      home: this.#home,
      secrets,
      images: null,
      holderOf: () => null,
      grants: null,
      files: null,
      dataDir,
      clock,
      log: createLog(process.env["TEST_LOG"] ?? "silent"),
      onLog: () => {},
    });
  }

  async close(): Promise<void> {
    await this.catalog?.close({ kind: "refused", code: "draining" });
    await this.#home?.close();
    this.catalog = null;
    this.#home = null;
  }
}

/** A project of a test's own in a catalogue with real replicas. */
export class CatalogSite {
  readonly projectId: string;
  readonly #ground: Ground;

  constructor(ground: Ground, projectId: string) {
    this.#ground = ground;
    this.projectId = projectId;
  }

  get catalog(): Catalog {
    if (!this.#ground.catalog) throw new Error("it is closed");
    return this.#ground.catalog;
  }

  /** The time of everything in it. */
  get clock(): SkippingClock {
    return this.#ground.clock;
  }

  get store(): Store {
    return this.#ground.store;
  }

  get secrets(): Secrets {
    return this.#ground.secrets;
  }

  get dataDir(): string {
    return this.#ground.dataDir;
  }

  /** Opens the catalogue again. */
  async start(): Promise<void> {
    await this.#ground.start();
  }

  /** Closes the catalogue, with every process of it. */
  async close(): Promise<void> {
    await this.#ground.close();
  }

  /** Stores a version and prepares it, untried. */
  async prepare(name: string, source: TestApp): Promise<Candidate> {
    const createdAt = Date.now();
    const stored = await this.store.apps.insertOrFind({ projectId: this.projectId, name, createdAt });
    const id = randomUUID();
    const bundleDir = await writeApp(
      path.join(this.dataDir, "bundles", this.projectId, name, id),
      name,
      source,
    );
    const { config } = loadAppConfig(bundleDir, { host: { cpuCount: CPUS } });
    const version = await this.store.versions.insert({
      id,
      appNumber: stored.number,
      config,
      bundle: artifactId(bundleDir, this.dataDir),
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
    const found = await this.store.apps.find({ projectId: this.projectId, name });
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
    const live = this.catalog.find(this.projectId, name);
    if (!live) throw new Error(`${name} takes no calls`);
    return callOn(live.pool, functionName, args);
  }

  async value(name: string, functionName = "run", args: object = {}): Promise<unknown> {
    return valueOf(await this.call(name, functionName, args));
  }

  /** Whether an app has left that file in the project's storage. */
  has(file: string): boolean {
    return existsSync(path.join(this.dataDir, "storage", this.projectId, file));
  }

  /** Lets go what waits for that file. */
  open(gate: string): void {
    writeFileSync(path.join(this.dataDir, "storage", this.projectId, gate), "");
  }

  /** Where a version's bundle is. */
  bundleDir({ bundle }: Version): string {
    return artifactFolder(bundle, this.dataDir);
  }

  /** The processes that work in a version's bundle. */
  processes(version: Version): number {
    const bundleDir = this.bundleDir(version);
    return existsSync(bundleDir) ? processesIn(bundleDir).length : 0;
  }

  /** The versions of an app whose bundles are there. */
  bundles(name: string): string[] {
    const folder = path.join(this.dataDir, "bundles", this.projectId, name);
    return existsSync(folder) ? readdirSync(folder) : [];
  }
}

/** One catalogue for the tests of a file; each is given a project of its own in it. */
export function catalogSites(): () => Promise<CatalogSite> {
  let ground: Ground | undefined;
  let projects = 0;
  beforeAll(async () => {
    const directory = mkdtempSync(path.join(tmpdir(), "millrace-versions-"));
    mkdirSync(dataDirIn(directory));
    const store = await openStore({ databaseUrl: null, dataDir: dataDirIn(directory) });
    const { path: python } = await findInterpreter(process.env["MILLRACE_PYTHON"] ?? "python3");
    ground = new Ground(directory, store, python);
  });
  afterAll(async () => {
    if (!ground) return;
    await ground.close();
    await ground.store.close();
    await assertNothingLeft(ground.directory);
    rmSync(ground.directory, { recursive: true, force: true });
  });
  return async () => {
    if (!ground) throw new Error("the store is not open yet");
    if (!ground.catalog) await ground.start();
    const id = `p-versions${++projects}`;
    await ground.store.projects.insert({ id, name: "versions", createdAt: 0 });
    return new CatalogSite(ground, id);
  };
}

function dataDirIn(directory: string): string {
  return path.join(directory, "data");
}

export const NEVER = new AbortController().signal;

export function callOn(pool: Pool, functionName = "run", args: object = {}): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const body = Buffer.from(JSON.stringify(args));
  pool.slots.submit(new Call(randomUUID(), functionName, body, { onEnd: resolve }));
  return promise;
}

/** What a call returned; throws when it ended otherwise. */
export function valueOf(outcome: Outcome): unknown {
  if (outcome.kind !== "returned") throw new Error(`it ended as ${JSON.stringify(outcome)}`);
  return JSON.parse(outcome.json.toString());
}
