import { randomUUID } from "node:crypto";
import { AppError, noSuchFunction, setupNotCallable } from "../model/errors.ts";
import type { Outcome } from "../model/outcome.ts";
import type { Gpus } from "../engines/granted-engine.ts";
import { Call } from "../replicas/call.ts";
import type { Slots } from "../replicas/slots/slots.ts";
import type { App, AppRetention, FunctionSignature, LiveStatus, Version } from "../model/app.ts";
import { DEFAULT_LOG_BYTES } from "../model/app-config.ts";
import type { GpuWish } from "../model/gpu.ts";
import { SETUP_FUNCTION } from "../model/names.ts";
import { newFleetCounts } from "../replicas/fleet-events.ts";
import type { RunTarget } from "../replicas/pool.ts";
import { settleMovedEnvironments } from "./builds/moved-environments.ts";
import { liveStatusOf, Registry, Room, type Traffic } from "./versions/traffic.ts";
import { AppSecrets, type Secrets, WHOLE_PROJECT } from "./secrets.ts";
import { Candidate } from "./versions/candidate.ts";
import { GpuRoom } from "./versions/gpu-room.ts";
import { Housekeeper, type HousekeeperParts } from "./versions/housekeeper.ts";
import { type LiveApp, type OpenParts, OpenVersion } from "./versions/open-version.ts";
import { StandIns } from "./versions/stand-ins.ts";
import { Switcher, type SwitcherParts } from "./versions/switcher.ts";
import { gpuWish } from "./workload.ts";
import { Turns } from "../kit/concurrency.ts";
export type { Candidate } from "./versions/candidate.ts";
export type { AppLogLine, LiveApp } from "./versions/open-version.ts";

/** Calls no function: once that is answered, a replica has reported its functions. Throws if none can start. */
async function learnFunctions(slots: Slots<Call>): Promise<void> {
  const outcome = await new Promise<Outcome>((resolve) => {
    slots.submit(new Call(randomUUID(), "", Buffer.alloc(0), { onEnd: resolve }));
  });
  if (outcome.kind !== "refused") return;
  const { code, message, retryAfterSeconds = 1 } = outcome;
  const headers = { "retry-after": String(retryAfterSeconds) };
  throw new AppError(code, message === undefined ? { headers } : { message, headers });
}

export type CatalogParts = Omit<OpenParts, "appSecrets"> & {
  readonly secrets: Pick<Secrets, "read" | "replace">;
  readonly images: HousekeeperParts["images"];
  readonly holderOf: SwitcherParts["holderOf"];
  /** What grants the GPUs of this machine; null where nothing does. */
  readonly grants: Gpus | null;
  /** An app was deleted: what is stored of it can go. */
  readonly onRemoved?: (appNumber: number) => void;
};

/** Every app that takes calls, found by project and name without touching the database. */
export class Catalog {
  readonly #parts: CatalogParts & OpenParts;
  readonly #registry = new Registry();
  readonly #turns = new Turns<number>();
  /** What has room on the GPUs of this machine. */
  readonly gpuRoom: GpuRoom;
  /** Changes what apps serve, in place or by going back. */
  readonly switcher: Switcher;
  readonly #housekeeper: Housekeeper;
  readonly #candidates = new Map<Candidate, App>();
  /** Versions of queued runs that are being read from the store. */
  readonly #opening = new Map<string, Promise<OpenVersion | null>>();
  readonly #standIns: StandIns;
  #isClosing = false;

  private constructor(parts: CatalogParts) {
    this.#parts = { ...parts, appSecrets: new AppSecrets(parts.secrets) };
    this.gpuRoom = new GpuRoom(parts.grants, parts.engine.reserves === true, () => this.all());
    const shared = {
      ...this.#parts,
      registry: this.#registry,
      turns: this.#turns,
      gpuRoom: this.gpuRoom,
    };
    this.switcher = new Switcher(shared);
    this.#housekeeper = new Housekeeper(shared);
    this.#standIns = new StandIns(parts.clock);
  }

  /** Opens the catalogue with what the store holds. No process is started but for `min_replicas`. */
  static async open(parts: CatalogParts): Promise<Catalog> {
    const catalog = new Catalog(parts);
    const moved = await settleMovedEnvironments(parts.dataDir);
    if (moved > 0)
      parts.log.info({ count: moved }, "the data directory has moved; updated the paths of environments");
    const versions = await parts.store.versions.listAll();
    // Where several services share the database, each opens the apps that it owns.
    if (parts.store.kind === "sqlite") {
      const byId = new Map(versions.map((version) => [version.id, version]));
      for (const app of await parts.store.apps.listAll()) {
        const version = app.currentVersionId !== null && byId.get(app.currentVersionId);
        if (version) await catalog.switcher.restore(app, version);
      }
    }
    await catalog.#housekeeper.start(versions);
    return catalog;
  }

  /** The version that the app's next call goes to. */
  find(projectId: string, appName: string): LiveApp | undefined {
    return this.#registry.find(projectId, appName)?.pick();
  }

  /** Whether the app's calls are served here, as far as is known; not if only another node has GPUs for it. */
  has(projectId: string, appName: string): boolean {
    const traffic = this.#registry.find(projectId, appName);
    return traffic !== undefined && !this.gpuRoom.isForAnotherNode(traffic.current.version.config);
  }

  /** The GPUs that each replica of an app asks for; null for none, and if it is not served here. */
  gpuWish(appNumber: number): GpuWish | null {
    const traffic = this.#registry.byNumber(appNumber);
    return traffic ? gpuWish(traffic.current.version.config) : null;
  }

  /** Whether the app is a server of its own: then nearly every address below it is its. */
  isServer(projectId: string, appName: string): boolean {
    const config = this.#registry.find(projectId, appName)?.current.version.config;
    return config !== undefined && config.customRuntime !== null;
  }

  /** What the app with that number serves, or is on its way to. */
  byNumber(appNumber: number): LiveApp | undefined {
    return this.#registry.byNumber(appNumber)?.current.live;
  }

  /** Whether the app's current version is known to have that function: its replicas say so, or its check at the deploy did. */
  hasFunction(appNumber: number, name: string): boolean {
    const { pool, version } = this.byNumber(appNumber) ?? {};
    if (pool?.functions) return pool.functions.has(name);
    return version?.functions?.some((known) => known.name === name) ?? false;
  }

  all(): LiveApp[] {
    return Array.from(this.#registry.all(), ({ current }) => current.live);
  }

  /** How many apps there are, and how many runs their replicas execute. */
  load(): { readonly apps: number; readonly runs: number } {
    const replicas = this.all().flatMap(({ pool }) => [...pool.replicas]);
    return { apps: this.all().length, runs: replicas.reduce((sum, { calls }) => sum + calls.size, 0) };
  }

  /** Every version of the app that may have replicas, the current one first. */
  versions(appNumber: number): LiveApp[] {
    const traffic = this.#registry.byNumber(appNumber);
    return traffic ? traffic.all().map(({ live }) => live) : [];
  }

  /** The status of each of a project's apps that are served here. */
  liveStatuses(projectId: string): LiveStatus[] {
    return this.all()
      .filter(({ app }) => app.projectId === projectId)
      .flatMap(({ app }) => liveStatusOf(this.versions(app.number)) ?? []);
  }

  /** Throws `function_not_found` if the app is known to lack the function; before its first start nothing is known. */
  requireFunction({ pool, version }: LiveApp, name: string): void {
    if (pool.functions?.has(name)) return;
    if (name === SETUP_FUNCTION) throw setupNotCallable();
    if (pool.functions) throw noSuchFunction([...pool.functions.keys()]);
    if (version.functions && !version.functions.some((known) => known.name === name))
      throw noSuchFunction(version.functions.map((known) => known.name));
  }

  /** What the app's functions take. An app that never ran is started to learn it; throws if it cannot start. */
  async functions({ pool, version }: LiveApp): Promise<FunctionSignature[]> {
    if (!pool.functions && !version.functions) await learnFunctions(pool.slots);
    const functions = [...(pool.functions?.values() ?? version.functions ?? [])];
    // Releases before 0.3.0 stored `setup` among them.
    return functions.filter(({ name }) => name !== SETUP_FUNCTION);
  }

  /** What one function takes; throws `function_not_found` if there is none of that name. */
  async signature(live: LiveApp, name: string): Promise<FunctionSignature> {
    const known = live.pool.functions?.get(name);
    if (known) return known;
    const functions = await this.functions(live);
    const found = functions.find((signature) => signature.name === name);
    if (!found) throw noSuchFunction(functions.map((signature) => signature.name));
    return found;
  }

  /** How long each app wants its results kept, and how much of its lines. */
  retentions(): AppRetention[] {
    return this.all().map(({ app, version }) => ({
      appNumber: app.number,
      retentionMs: version.config.limits.resultRetentionSeconds * 1000,
      maxLogBytes: this.maxLogBytes(app.number),
    }));
  }

  maxLogBytes(appNumber: number): number {
    return this.byNumber(appNumber)?.version.config.limits.maxLogBytes ?? DEFAULT_LOG_BYTES;
  }

  /** Where a run of this version goes: to its own replicas if it can start, else to those of the current version. */
  async versionTarget(appNumber: number, versionId: string): Promise<RunTarget | null> {
    const traffic = this.#registry.byNumber(appNumber);
    if (!traffic) return null;
    const open = traffic.find(versionId) ?? (await this.#reopen(traffic, versionId));
    const { current } = traffic;
    const mayStart = open === current || !open || !current.excludes(open.version);
    if (!open || !mayStart || open.pool.isHeldBack) return current.live.target;
    open.usedAt = this.#parts.clock.monotonic();
    return open.live.target;
  }

  /** Serves an app from now on; false if it has no version or was deleted. Throws why its files cannot be fetched. */
  async open(appNumber: number): Promise<boolean> {
    return await this.#turns.take(appNumber, async () => {
      if (this.#registry.byNumber(appNumber)) return true;
      const stored = await this.#stored(appNumber);
      if (!stored || this.#isClosing) return false;
      const { app, version } = stored;
      await this.switcher.restore(app, version, () => this.#standIns.take(version.id));
      return true;
    });
  }

  /** Makes an app ready that is about to be served here, with that many replicas; throws if it cannot start. */
  async warm(appNumber: number, replicas: number): Promise<void> {
    const stored = await this.#stored(appNumber);
    if (!stored || this.#isClosing) throw new AppError("app_not_found");
    const { app, version } = stored;
    await this.#parts.appSecrets.load({ projectId: app.projectId, appNumber });
    if (replicas === 0) return;
    const make = (): OpenVersion => new OpenVersion(app, version, newFleetCounts(), this.#parts);
    await this.#standIns.warm(version.id, replicas, make);
  }

  /** Stops serving an app here: it finishes the calls that it holds. */
  async letGo(appNumber: number): Promise<void> {
    await this.#turns.take(appNumber, async () => {
      const app = this.byNumber(appNumber)?.app;
      if (app) this.#housekeeper.sendOff(this.#registry.remove(app));
    });
  }

  /** Whether a version of the app is being made. */
  isChanging(appNumber: number): boolean {
    return [...this.#candidates.values()].some(({ number }) => number === appNumber);
  }

  readyCount(appNumber: number): number {
    return this.#registry.byNumber(appNumber)?.readyCount ?? 0;
  }

  /** A stored version with its own replicas, beside those that take calls; no call finds it yet. */
  prepare(app: App, version: Version): Candidate {
    if (this.#isClosing) throw new AppError("draining");
    const open = async (): Promise<OpenVersion> => {
      await this.#parts.appSecrets.load({ projectId: app.projectId, appNumber: app.number });
      const counts = this.#registry.byNumber(app.number)?.counts ?? newFleetCounts();
      return new OpenVersion(app, version, counts, this.#parts);
    };
    const candidate: Candidate = new Candidate(version, open, () => this.#candidates.delete(candidate));
    this.#candidates.set(candidate, app);
    return candidate;
  }

  /** What has to end before a candidate can start. */
  async roomFor(candidate: Candidate): Promise<Room> {
    const traffic = this.#registry.byNumber(candidate.version.appNumber);
    return new Room(await candidate.opened(), traffic, this.gpuRoom);
  }

  /** Has the app serve a candidate: new calls move to it, those under way end where they are. */
  async activate(candidate: Candidate): Promise<LiveApp> {
    const app = this.#candidates.get(candidate);
    if (!app) throw new Error(`the version ${candidate.version.id} was discarded`);
    const live = await this.switcher.activate(app, candidate);
    this.#housekeeper.note(app.number);
    return live;
  }

  /** Deletes an app: no call finds it when this resolves. It finishes the calls that it holds; then its files go. */
  async remove(app: App): Promise<void> {
    const { store, clock, secrets, appSecrets, onRemoved, holderOf } = this.#parts;
    const scope = { projectId: app.projectId, appNumber: app.number };
    await this.#turns.take(app.number, async () => {
      const holder = holderOf(app.number);
      const isDeleted = await store.apps.markDeleted({ appNumber: app.number, now: clock.now(), holder });
      if (!isDeleted) throw new AppError("app_not_found");
      this.#housekeeper.endDeleted(app, this.#registry.remove(app));
      onRemoved?.(app.number);
      appSecrets.forget(scope);
      await secrets.replace(scope, {});
    });
  }

  /** The secrets of an app, or with null of a whole project, may have changed: then later replicas get the new ones. */
  async refreshSecrets(projectId: string, appNumber: number | null): Promise<void> {
    const scope = { projectId, appNumber: appNumber ?? WHOLE_PROJECT };
    if (!(await this.#parts.appSecrets.refresh(scope))) return;
    for (const open of [...this.#everyTraffic(), ...this.#standIns.all()]) {
      const { app } = open.live;
      if (app.projectId === projectId && (appNumber === null || app.number === appNumber)) open.renew();
    }
  }

  /** Any secrets may have changed, also of apps that were served here and may come back. */
  async refreshAllSecrets(): Promise<void> {
    for (const { projectId, appNumber } of this.#parts.appSecrets.scopes())
      await this.refreshSecrets(projectId, appNumber === WHOLE_PROJECT ? null : appNumber);
  }

  /** A version was made anew in another folder: later replicas are started there. */
  rebuilt(version: Version): void {
    this.#registry.byNumber(version.appNumber)?.find(version.id)?.rebuild(version);
  }

  /** No new calls; resolves when those taken have ended. */
  async drain(): Promise<void> {
    this.#stop();
    await Promise.all(this.#everyVersion().map(({ pool }) => pool.slots.drain()));
  }

  /** Ends every process; what still runs gets `outcome`. */
  async close(outcome: Outcome): Promise<void> {
    this.#stop();
    await Promise.all(Array.from(this.#candidates.keys(), (candidate) => candidate.discard()));
    await this.#standIns.close();
    await Promise.all(this.#everyVersion().map(({ pool }) => pool.close(outcome)));
    await this.#housekeeper.settle();
  }

  #stop(): void {
    this.#isClosing = true;
    this.#housekeeper.stop();
    for (const traffic of this.#registry.all()) traffic.stop();
  }

  #everyTraffic(): OpenVersion[] {
    return Array.from(this.#registry.all(), (traffic) => traffic.all()).flat();
  }

  #everyVersion(): OpenVersion[] {
    return [...this.#everyTraffic(), ...this.#housekeeper.leaving()];
  }

  /** An app and the version it serves, with its files fetched; null for none. Throws why they cannot be fetched. */
  async #stored(appNumber: number): Promise<{ readonly app: App; readonly version: Version } | null> {
    const { store, files } = this.#parts;
    const app = await store.apps.findByNumber(appNumber);
    const version = app?.currentVersionId ? await store.versions.find(app.currentVersionId) : null;
    if (!app || !version) return null;
    await files?.ensure(version);
    return { app, version };
  }

  async #reopen(traffic: Traffic, versionId: string): Promise<OpenVersion | null> {
    const known = this.#opening.get(versionId);
    if (known) return await known;
    const opening = this.#openStored(traffic, versionId).finally(() => this.#opening.delete(versionId));
    this.#opening.set(versionId, opening);
    return await opening;
  }

  async #openStored(traffic: Traffic, versionId: string): Promise<OpenVersion | null> {
    const { app } = traffic.current.live;
    const { store, files } = this.#parts;
    const version = await store.versions.find(versionId);
    if (version?.appNumber !== app.number) return traffic.find(versionId) ?? null;
    try {
      await files?.ensure(version);
    } catch {
      // It was logged where it failed.
      return null;
    }
    // A switch may have opened it meanwhile.
    const open = traffic.find(versionId);
    if (open || this.#isClosing) return open ?? null;
    // If the app is no longer served here, this version would never be closed.
    if (this.#registry.byNumber(app.number) !== traffic) return null;
    const reopened = new OpenVersion(app, version, traffic.counts, this.#parts);
    traffic.addRetired(reopened);
    return reopened;
  }
}
