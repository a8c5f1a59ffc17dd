import { randomUUID } from "node:crypto";
import { mkdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import path from "node:path";
import { loadAppConfig } from "../config/app-config.ts";
import type { Clock } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { AppError } from "../model/errors.ts";
import type { AppConfig } from "../model/app-config.ts";
import type { App, FunctionSignature, Version } from "../model/app.ts";
import { APP_NAME } from "../model/names.ts";
import type { Outcome } from "../model/outcome.ts";
import { Call } from "../replicas/call.ts";
import type { Engine } from "../replicas/engine.ts";
import type { Home } from "../replicas/home.ts";
import { newFleetCounts } from "../replicas/fleet-counts.ts";
import { Pool } from "../replicas/pool.ts";
import type { PoolEvents, PoolLogLine } from "../replicas/pool.ts";
import type { Store } from "../store/store.ts";
import { copyFolder, hashFolder } from "./bundle.ts";
import { launchSpec } from "./launch-spec.ts";

/** An app that takes calls: its current version and the replicas of that version. */
export type LiveApp = {
  readonly app: App;
  readonly version: Version;
  readonly pool: Pool;
  /** Where its runs go. */
  readonly target: RunTarget;
};

type RunTarget = {
  readonly appNumber: number;
  readonly versionId: string;
  readonly pool: Pool;
  readonly config: AppConfig;
};

/** A line an app printed, with where it came from. */
export type AppLogLine = PoolLogLine & {
  readonly projectId: string;
  readonly appName: string;
  readonly appNumber: number;
};

export type CatalogParts = {
  readonly store: Store;
  readonly engine: Engine;
  readonly home: Home;
  readonly dataDir: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly onLog: (line: AppLogLine) => void;
};

/** Every app that takes calls, found by project and name without touching the database. */
export class Catalog {
  readonly #parts: CatalogParts;
  /** By project, then by name: a key made of both would be put together anew for every call. */
  readonly #live = new Map<string, Map<string, LiveApp>>();
  /** By number, for those who know no more of it. */
  readonly #byNumber = new Map<number, LiveApp>();
  /** Pools of earlier versions that still finish what they hold. */
  readonly #retiring = new Map<Pool, Promise<void>>();

  private constructor(parts: CatalogParts) {
    this.#parts = parts;
  }

  /** Opens the catalogue with what the store holds. */
  static async open(parts: CatalogParts): Promise<Catalog> {
    const catalog = new Catalog(parts);
    for (const app of await parts.store.apps.listAll()) {
      if (app.currentVersionId === null) continue;
      const version = await parts.store.versions.find(app.currentVersionId);
      if (version) catalog.#serve(app, version);
    }
    return catalog;
  }

  find(projectId: string, appName: string): LiveApp | undefined {
    return this.#live.get(projectId)?.get(appName);
  }

  /** Whether the app has the function, as far as is known: null before its first replica has said hello. */
  hasFunction({ pool, version }: LiveApp, name: string): boolean | null {
    if (pool.functions) return pool.functions.has(name);
    return version.functions && version.functions.some((signature) => signature.name === name);
  }

  /** The app with that number. */
  byNumber(appNumber: number): LiveApp | undefined {
    return this.#byNumber.get(appNumber);
  }

  /** Every app, in no order. */
  all(): LiveApp[] {
    return [...this.#byNumber.values()];
  }

  /** How long each app wants its results kept. */
  retentions(): { readonly appNumber: number; readonly retentionMs: number }[] {
    return this.all().map(({ app, version }) => ({
      appNumber: app.number,
      retentionMs: version.config.limits.resultRetentionSeconds * 1000,
    }));
  }

  /**
   * What a function takes, undefined if the app has none of that name. An app that never ran is started to
   * learn it; throws if it cannot start.
   */
  async signature({ pool, version }: LiveApp, name: string): Promise<FunctionSignature | undefined> {
    if (!pool.functions && version.functions) return version.functions.find((known) => known.name === name);
    if (!pool.functions) await learnFunctions(pool);
    return pool.functions?.get(name);
  }

  /** Makes a folder the app's current version; a folder that is so already changes nothing. */
  async install(projectId: string, folder: string): Promise<LiveApp> {
    const { store, clock, dataDir, log } = this.#parts;
    const { config, warnings } = loadAppConfig(folder, { host: { cpuCount: availableParallelism() } });
    for (const warning of warnings) log.warn({ folder, warning }, "app configuration");
    const name = config.deployment.name ?? path.basename(folder).toLowerCase();
    if (!APP_NAME.test(name)) throw new Error(`"${name}" cannot be an app's name; set deployment.name`);
    const bundleDir = path.join(dataDir, "bundles", projectId, name, await hashFolder(folder));
    const current = this.find(projectId, name);
    if (current?.version.bundleDir === bundleDir) return current;
    const createdAt = clock.now();
    await copyFolder(folder, bundleDir);
    const app = await store.apps.insertOrFind({ projectId, name, createdAt });
    const version = await store.versions.insert({
      id: randomUUID(),
      appNumber: app.number,
      config,
      bundleDir,
      createdAt,
    });
    await store.apps.setCurrentVersion({ appNumber: app.number, versionId: version.id, now: createdAt });
    const live = this.#serve({ ...app, currentVersionId: version.id }, version);
    if (current) this.#retire(current.pool);
    return live;
  }

  /** No new calls; resolves when those taken have ended. */
  async drain(): Promise<void> {
    await Promise.all(this.all().map(({ pool }) => pool.drain()));
    await Promise.all(this.#retiring.values());
  }

  /** Ends every process; what still runs gets `outcome`. */
  async close(outcome: Outcome): Promise<void> {
    const pools = [...this.all().map(({ pool }) => pool), ...this.#retiring.keys()];
    await Promise.all(pools.map((pool) => pool.close(outcome)));
    await Promise.all(this.#retiring.values());
  }

  #serve(app: App, version: Version): LiveApp {
    const { engine, home, log, dataDir, onLog } = this.#parts;
    const where = { projectId: app.projectId, appName: app.name, appNumber: app.number };
    const storageDir = path.join(dataDir, "storage", app.projectId);
    mkdirSync(storageDir, { recursive: true, mode: 0o700 });
    const spec = launchSpec(app, version, storageDir);
    // What a template prints at its import belongs to no replica.
    const launcher = engine.launcher(spec, home, (line) =>
      onLog({ ...line, ...where, replicaId: "template" }),
    );
    const events: PoolEvents = {
      onLog: (line) => onLog({ ...line, ...where }),
      onFunctions: (functions) => this.#keepFunctions(version, functions),
      onReplicaGone: (replicaId, exit) => {
        log.debug({ ...where, replicaId, detail: exit.detail }, "replica ended");
        if (!exit.initFailure) return;
        const { traceback } = exit.initFailure;
        log.warn({ ...where, traceback }, "app failed to start");
        for (const text of traceback.trimEnd().split("\n")) {
          onLog({ ...where, replicaId, runId: null, stream: "stderr", text });
        }
      },
    };
    const counts = this.#byNumber.get(app.number)?.pool.counts ?? newFleetCounts();
    const pool = new Pool(version.config, launcher, home, events, counts);
    if (version.config.deployment.disableAuth)
      log.warn(where, "APP WITHOUT AUTHENTICATION: anybody who reaches the listener can call it");
    const target = { appNumber: app.number, versionId: version.id, pool, config: version.config };
    const live = { app, version, pool, target };
    const project = this.#live.get(app.projectId) ?? new Map<string, LiveApp>();
    this.#live.set(app.projectId, project.set(app.name, live));
    this.#byNumber.set(app.number, live);
    return live;
  }

  #keepFunctions(version: Version, functions: readonly FunctionSignature[]): void {
    if (version.functions) return;
    const { store, log } = this.#parts;
    store.versions
      .setFunctions({ id: version.id, functions })
      .catch((error: unknown) => log.error({ err: error }, "signatures could not be stored"));
  }

  #retire(pool: Pool): void {
    const gone = pool
      .drain()
      .then(() => pool.close({ kind: "refused", code: "draining" }))
      .finally(() => this.#retiring.delete(pool));
    this.#retiring.set(pool, gone);
  }
}

/** A call of no function: when it is answered, some replica has said what there is. */
async function learnFunctions(pool: Pool): Promise<void> {
  const outcome = await new Promise<Outcome>((resolve) => {
    pool.submit(new Call(randomUUID(), "", Buffer.alloc(0), { onEnd: resolve }));
  });
  if (outcome.kind !== "refused") return;
  const { code, message, retryAfterSeconds = 1 } = outcome;
  const headers = { "retry-after": String(retryAfterSeconds) };
  throw new AppError(code, message === undefined ? { headers } : { message, headers });
}
