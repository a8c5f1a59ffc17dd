import path from "node:path";
import { existsSync, lstatSync, statSync } from "node:fs";
import type { Containers } from "../../host/containers/containers.ts";
import { artifactFolder, artifactFolders } from "../../host/data-folders.ts";
import { absent, readdir, rmdir } from "../../kit/files.ts";
import { type Clock, pause, type Timer } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { App, Version } from "../../model/app.ts";
import type { Store } from "../../store/store.ts";
import { sweepCaches } from "../builds/build-environment.ts";
import { dropEnvironment, environmentsDir, sweepEnvironments } from "../builds/environments.ts";
import type { OpenVersion } from "./open-version.ts";
import type { Registry, Traffic } from "./traffic.ts";
import type { Turns } from "../../kit/concurrency.ts";
import { removeTree } from "../../kit/remove-tree.ts";

/** Whether other services may use a folder of the data directory: it is a link, or on another disk. */
export function isSharedFolder(dataDir: string, name: string): boolean {
  const folder = path.join(dataDir, name);
  const found = lstatSync(folder, { throwIfNoEntry: false });
  return found !== undefined && (found.isSymbolicLink() || found.dev !== statSync(dataDir).dev);
}

export type HousekeeperParts = {
  readonly store: Store;
  readonly dataDir: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly registry: Registry;
  readonly turns: Turns<number>;
  /** What keeps the images that stand for environments; null where there are none. */
  readonly images: { readonly containers: Pick<Containers, "sweepImages"> } | null;
  /** Nothing of a deleted app runs any more, and its files are gone. */
  readonly onRemoved?: (appNumber: number) => void;
};

const DAY_MS = 24 * 60 * 60 * 1000;
const LOOK_MS = 60_000;
const LOOKS_PER_HOUR = 60;
/** Longer than a request takes to arrive: until then one may come for a version that it was given before. */
const LINGER_MS = 90_000;
/** The same for an app that has moved to another node: later requests are sent there. */
const MOVED_LINGER_MS = 10_000;
/** As long as a build may take: until then unfinished or unnamed folders may be another service's. */
const UNFINISHED_MS = 3 * 60 * 60 * 1000;

/** Clears away what no app needs any more: replicas, bundles and environments of old versions. */
export class Housekeeper {
  readonly #parts: HousekeeperParts;
  /** Numbers of apps that may have more versions than are kept. */
  readonly #untidy = new Set<number>();
  /** Apps that were deleted, or are served by another node, while they finish what they hold. */
  readonly #leaving = new Set<Traffic>();
  /** Deleted apps that run nothing any more, and whose files are still there. */
  readonly #remains = new Map<number, App>();
  readonly #work = new Set<Promise<void>>();
  #timer: Timer | null = null;
  #looks = 0;
  #isStopping = false;
  readonly #stopping = new AbortController();

  constructor(parts: HousekeeperParts) {
    this.#parts = parts;
  }

  /** Removes what an interrupted service left, before anything is deployed; looks every minute from now on. */
  async start(versions: readonly Version[]): Promise<void> {
    const isShared = isSharedFolder(this.#parts.dataDir, "bundles");
    await this.#removeUnnamed(versions, isShared ? Date.now() - UNFINISHED_MS : undefined);
    const byApp = Map.groupBy(versions, ({ appNumber }) => appNumber);
    for (const [appNumber, { length }] of byApp) if (length > KEPT_VERSIONS) this.#untidy.add(appNumber);
    this.#timer = this.#parts.clock.every(LOOK_MS, () => this.#do(() => this.#look()));
    this.#do(() => this.#look());
  }

  note(appNumber: number): void {
    this.#untidy.add(appNumber);
    this.#do(() => this.#tidy(appNumber));
  }

  /** Ends a deleted app: it finishes what it holds, then nothing of it is left. */
  endDeleted(app: App, traffic: Traffic | undefined): void {
    this.#do(async () => {
      if (traffic) await this.#end(traffic);
      if (this.#isStopping) return;
      this.#remains.set(app.number, app);
      await this.#clear(app);
    });
  }

  /** Ends an app that another node serves from now on: it finishes what it holds. */
  sendOff(traffic: Traffic | undefined): void {
    if (!traffic) return;
    for (const open of traffic.all()) open.retire();
    // Calls that were on their way to it are still served.
    this.#leaving.add(traffic);
    this.#do(async () => {
      await pause(this.#parts.clock, MOVED_LINGER_MS, this.#stopping.signal);
      await this.#end(traffic);
    });
  }

  /** The open versions of apps that are no longer served here. */
  leaving(): OpenVersion[] {
    return [...this.#leaving].flatMap((traffic) => traffic.all());
  }

  /** Begins nothing more, and does not wait for calls to end. */
  stop(): void {
    this.#isStopping = true;
    this.#stopping.abort();
    this.#timer?.cancel();
  }

  async settle(): Promise<void> {
    await Promise.all(this.#work);
  }

  async #look(): Promise<void> {
    const { registry, clock, store } = this.#parts;
    for (const traffic of registry.all()) await closeIdle(traffic, clock.monotonic());
    for (const appNumber of this.#untidy) await this.#tidy(appNumber);
    for (const app of this.#remains.values()) await this.#clear(app);
    if (this.#looks++ % LOOKS_PER_HOUR !== 0) return;
    await this.#sweepEnvironments();
    // Other nodes of the database remove versions too, and leave what this one has fetched of them.
    if (store.kind !== "sqlite")
      await this.#removeUnnamed(await store.versions.listAll(), Date.now() - UNFINISHED_MS);
  }

  /** Removes the app's versions beyond those that are kept; what is still needed is looked at again. */
  async #tidy(appNumber: number): Promise<void> {
    const { store, turns, registry } = this.#parts;
    await turns.take(appNumber, async () => {
      const traffic = registry.byNumber(appNumber);
      if (this.#isStopping) return;
      const versions = await store.versions.list(appNumber);
      const used = new Set(await store.versions.inUse(appNumber));
      const isNeeded = (id: string): boolean => used.has(id) || traffic?.find(id) !== undefined;
      const old = outdated(versions, () => false);
      const gone = traffic ? outdated(versions, isNeeded) : [];
      await removeVersions(this.#parts, gone);
      if (!traffic || gone.length === old.length) this.#untidy.delete(appNumber);
    });
  }

  async #end(traffic: Traffic): Promise<void> {
    this.#leaving.add(traffic);
    traffic.stop();
    await Promise.all(traffic.all().map((open) => open.pool.slots.drain().then(() => open.close())));
    this.#leaving.delete(traffic);
  }

  /** Retried every minute until it succeeds. */
  async #clear({ number, projectId, name }: App): Promise<void> {
    const { store, dataDir } = this.#parts;
    const versions = await store.versions.list(number);
    await removeVersions(this.#parts, versions);
    await this.#removeEnvironments(versions);
    if (!this.#remains.delete(number)) return;
    this.#parts.onRemoved?.(number);
    // It stays where another app of that name has come meanwhile.
    await rmdir(path.join(dataDir, "bundles", projectId, name)).catch(() => undefined);
  }

  /** Those that only these versions used, unless a build has wanted one since. */
  async #removeEnvironments(versions: readonly Version[]): Promise<void> {
    const left = await this.#environmentsInUse();
    const gone = Map.groupBy(versions, ({ environment }) => environment);
    for (const [environment, users] of gone) {
      if (environment === null) continue;
      const folder = artifactFolder(environment, this.#parts.dataDir);
      if (left.has(folder)) continue;
      const usedAt = Math.max(...users.map(({ createdAt }) => createdAt));
      await dropEnvironment(folder, usedAt, () => this.#environmentsInUse());
    }
    await this.#sweepImages();
  }

  async #removeUnnamed(versions: readonly Version[], before?: number): Promise<void> {
    const { dataDir } = this.#parts;
    const named = new Set(versions.map(({ bundle }) => artifactFolder(bundle, dataDir)));
    await removeUnnamedBundles(path.join(dataDir, "bundles"), named, before);
  }

  async #sweepEnvironments(): Promise<void> {
    const { dataDir } = this.#parts;
    await sweepEnvironments(dataDir, () => this.#environmentsInUse(), {
      keepMs: DAY_MS,
      unfinishedMs: isSharedFolder(dataDir, "environments") ? UNFINISHED_MS : 0,
    });
    await this.#sweepImages();
    await sweepCaches(dataDir, DAY_MS);
  }

  /** After the folders that stand for them. */
  async #sweepImages(): Promise<void> {
    const { images, dataDir } = this.#parts;
    const root = environmentsDir(dataDir);
    await images?.containers.sweepImages((environment) => existsSync(path.join(root, environment)));
  }

  async #environmentsInUse(): Promise<ReadonlySet<string>> {
    const { store, registry, dataDir } = this.#parts;
    const stored = await store.versions.listAll();
    const open = [...registry.all()].flatMap((traffic) => traffic.all());
    const versions = [...stored, ...[...open, ...this.leaving()].map(({ version }) => version)];
    return new Set(versions.flatMap((version) => artifactFolders(version, dataDir).environment ?? []));
  }

  #do(work: () => Promise<void>): void {
    const doing = work()
      .catch((error: unknown) => {
        if (!this.#isStopping) this.#parts.log.error({ err: error }, "could not remove old versions");
      })
      .finally(() => this.#work.delete(doing));
    this.#work.add(doing);
  }
}

/** Closes versions that were replaced, or opened for a run of an earlier time, once they are idle. */
async function closeIdle(traffic: Traffic, now: number): Promise<void> {
  for (const open of traffic.retired) {
    if (open.isBusy || now - open.usedAt < LINGER_MS) continue;
    traffic.forget(open);
    await open.close();
  }
}

/** So many of an app's versions are kept to go back to, the newest first. */
export const KEPT_VERSIONS = 10;

/** Those of an app's versions, newest first, that are neither among the newest nor needed. */
export function outdated(versions: readonly Version[], isNeeded: (id: string) => boolean): Version[] {
  return versions.slice(KEPT_VERSIONS).filter(({ id }) => !isNeeded(id));
}

/** Removes versions, rows first: a row never lacks its folder. */
async function removeVersions(parts: HousekeeperParts, versions: readonly Version[]): Promise<void> {
  const { store, dataDir } = parts;
  if (versions.length === 0) return;
  await store.versions.remove(versions.map(({ id }) => id));
  for (const { id, bundle } of versions) {
    // One that serves after all is not removed. A folder may be that of several versions.
    const others = await store.versions.list(versions[0]!.appNumber);
    if (others.some((other) => other.id === id || other.bundle === bundle)) continue;
    await removeTree(artifactFolder(bundle, dataDir));
  }
}

/** Removes bundle folders (project/app/version) without a version; newer ones than `before` may soon have one. */
export async function removeUnnamedBundles(
  bundlesDir: string,
  named: ReadonlySet<string>,
  before = Number.POSITIVE_INFINITY,
): Promise<void> {
  for (const project of await foldersIn(bundlesDir)) {
    for (const app of await foldersIn(project)) {
      const bundles = await foldersIn(app);
      const unnamed = bundles.filter((bundle) => !named.has(bundle) && cameAt(bundle) < before);
      // An app without bundles was deleted, or never served.
      const gone = unnamed.length === bundles.length && cameAt(app) < before ? [app] : unnamed;
      for (const folder of gone) await removeTree(folder);
    }
  }
}

/** When a folder was moved to its place: that changes its status. */
function cameAt(folder: string): number {
  return statSync(folder, { throwIfNoEntry: false })?.ctimeMs ?? 0;
}

async function foldersIn(folder: string): Promise<string[]> {
  const entries = (await readdir(folder, { withFileTypes: true }).catch(absent)) ?? [];
  return entries.filter((entry) => entry.isDirectory()).map((entry) => path.join(folder, entry.name));
}
