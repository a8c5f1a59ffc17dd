import path from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { Readable } from "node:stream";
import { rm } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { loadAppConfig } from "../../config/app-config.ts";
import type { Timer } from "../../kit/clock.ts";
import { UuidSource } from "../../kit/ids.ts";
import type { Seal } from "../../kit/seal.ts";
import type { Owners } from "../../nodes/owners.ts";
import type { App } from "../../model/app.ts";
import type { StoredBuild } from "../../store/builds.ts";
import type { Build, BuildLine, BuildStatus } from "../../model/build.ts";
import { AppError } from "../../model/errors.ts";
import { hashFolder } from "../bundles/hash.ts";
import type { LiveApp } from "../catalog.ts";
import { BuildLogs } from "./build-log.ts";
import type { CarryOutParts, ZipSource } from "./carry-out.ts";
import { readDeployRequest, thisHost } from "./deploy-request.ts";
import type { DeployRequest } from "./deploy-request.ts";
import { settleLeftover } from "./leftovers.ts";
import { DeployFolders } from "./folders.ts";
import { BuildsUnderWay } from "./under-way.ts";
import { BundleUploads, UPLOAD_LIFE_MS } from "./uploads.ts";

export type DeployerParts = Omit<CarryOutParts, "folders"> & {
  readonly seal: Seal;
  readonly maxUploadBytes: number;
  /** Whether the disk is to take no more. */
  readonly shortage: () => string | null;
  /** Which apps are this service's; null where it is the only one. */
  readonly owners: Pick<Owners, "has" | "takeNew"> | null;
};

/** A build and the app it is for. */
export type Begun = { readonly build: Build; readonly app: App };

/** What is stored of a build beside its status. */
type Kept = { readonly request: DeployRequest["payload"] };

const SWEEP_MS = 60_000;
const STOPPED = "the service stopped during this deploy; deploy again";
const NEVER_CAME = "nothing was uploaded within an hour; deploy again";

/** The life of deploys: from a payload and an upload, or a folder, to a version that serves. */
export class Deployer {
  readonly logs: BuildLogs;
  readonly #parts: DeployerParts;
  readonly #ids = new UuidSource();
  readonly #folders: DeployFolders;
  readonly #uploads: BundleUploads;
  readonly #underWay: BuildsUnderWay;
  /** Builds whose upload is arriving just now, with how many times. */
  readonly #arriving = new Map<string, number>();
  #sweeping: Timer | null = null;
  #isStopping = false;

  constructor(parts: DeployerParts) {
    this.#parts = parts;
    this.#folders = new DeployFolders(parts.dataDir);
    this.logs = new BuildLogs(parts);
    this.#uploads = new BundleUploads({
      ...parts,
      dir: this.#folders.uploads,
      maxBytes: parts.maxUploadBytes,
    });
    this.#underWay = new BuildsUnderWay({ ...parts, folders: this.#folders, logs: this.logs });
  }

  /** How many builds have ended, by how. */
  get ended(): ReadonlyMap<BuildStatus, number> {
    return this.#underWay.ended;
  }

  /** Clears up after the service before this one, and from now on after whatever comes to nothing. */
  async start(): Promise<void> {
    // Whoever sent one was told that it is here, and waits for its end.
    const arrived = await this.#uploads.arrived();
    await removeTree(this.#folders.work);
    await this.#sweep(arrived);
    // Last: should this service end here too, the next one still knows.
    await rm(this.#folders.uploads, { recursive: true, force: true });
    this.#sweeping = this.#parts.clock.every(SWEEP_MS, () => void this.#sweepSafely());
  }

  /** Begins a deploy whose bundle is to be uploaded; throws `deploy_invalid`. */
  async begin(
    projectId: string,
    payload: Readonly<Record<string, unknown>>,
  ): Promise<Begun & { readonly grant: string }> {
    const request = readDeployRequest(payload, thisHost(this.#parts));
    const begun = await this.#insert(projectId, request, this.#newId());
    return { ...begun, grant: this.#uploads.give(begun.build.id) };
  }

  /** The name of the app that a payload deploys; throws `deploy_invalid`. */
  nameOf(payload: Readonly<Record<string, unknown>>): string {
    return readDeployRequest(payload, thisHost(this.#parts)).name;
  }

  /** The app whose bundle a right is for; null if there is none any more. */
  async appOfGrant(grant: string): Promise<App | null> {
    const { store } = this.#parts;
    const build = await store.builds.find(this.#uploads.read(grant));
    return build && (await store.apps.findByNumber(build.appNumber));
  }

  /** Takes a bundle that a right is for; its end starts the build. One that came before is taken again, for nothing. */
  async upload(grant: string, from: Readable): Promise<Build> {
    const id = this.#uploads.read(grant);
    const build = await this.#parts.store.builds.find(id);
    if (!build) throw new AppError("build_not_found");
    if (build.status === "cancelled") throw new AppError("build_finished");
    if (build.status === "pending" && !this.#underWay.has(id)) await this.#adopt(build);
    if (!this.#underWay.isWaiting(id)) {
      await this.#uploads.readPast(from);
      return build;
    }
    this.#arriving.set(id, (this.#arriving.get(id) ?? 0) + 1);
    try {
      await this.#take(id, await this.#uploads.receive(id, from));
    } finally {
      const others = (this.#arriving.get(id) ?? 1) - 1;
      if (others > 0) this.#arriving.set(id, others);
      else this.#arriving.delete(id);
    }
    return build;
  }

  /** Begins a deploy with its bundle, in one go. Nothing is stored before the bundle has come. */
  async deployUpload(projectId: string, name: string, from: Readable): Promise<Begun> {
    const request = readDeployRequest({ name }, thisHost(this.#parts));
    const id = this.#newId();
    const source = await this.#uploads.receive(id, from);
    try {
      const begun = await this.#insert(projectId, request, id);
      await this.#take(id, source);
      return begun;
    } catch (error) {
      await this.#uploads.discard(source);
      throw error;
    }
  }

  /**
   * Makes a folder the app's current version, untried: its first call starts it. A folder that is so already
   * changes nothing.
   */
  async deployFolder(projectId: string, folder: string): Promise<LiveApp> {
    const host = thisHost(this.#parts);
    const { config, warnings } = loadAppConfig(folder, { host });
    for (const warning of warnings) this.#parts.log.warn({ folder, warning }, "app configuration");
    const name = config.deployment.name ?? path.basename(folder).toLowerCase();
    const patterns = config.deployment;
    const hash = await hashFolder(folder, patterns);
    const current = await this.#current(projectId, name);
    if (current?.version.bundleHash === hash) {
      const deployment = { ...config.deployment, name };
      const scaling = { ...config.scaling, ...current.version.overrides };
      if (isDeepStrictEqual(current.version.config, { ...config, deployment, scaling })) return current;
    }
    const { build } = await this.#insert(projectId, readDeployRequest({ name }, host), this.#newId());
    return await this.#underWay.start(build.id, { kind: "folder", folder, patterns, hash });
  }

  /** Ends a build at once; throws `build_finished` when that is too late. */
  async cancel(build: Build): Promise<void> {
    const { store, clock } = this.#parts;
    if (this.#underWay.has(build.id)) return await this.#underWay.cancel(build.id);
    const now = clock.now();
    if (!(await store.builds.move({ id: build.id, to: "cancelled", now })))
      throw new AppError("build_finished");
  }

  /** Ends every build of an app that is about to go. */
  async cancelAll({ number }: App): Promise<void> {
    const ids = this.#underWay.ofApp(number);
    // One that can no longer be stopped has ended all the same.
    await Promise.allSettled(ids.map((id) => this.#underWay.cancel(id)));
  }

  /** Whether a build of the app is under way. */
  isBuilding(appNumber: number): boolean {
    return this.#underWay.ofApp(appNumber).length > 0;
  }

  /** A build's lines as they come, until it has ended. */
  follow(buildId: string, after: string | null, signal: AbortSignal): AsyncGenerator<readonly BuildLine[]> {
    return this.logs.follow(buildId, after, signal);
  }

  /** Builds that are being made end, as failed; those that wait for an upload wait on. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#sweeping?.cancel();
    await this.#underWay.stop(STOPPED);
  }

  async #current(projectId: string, name: string): Promise<LiveApp | undefined> {
    const { store, catalog } = this.#parts;
    const app = await store.apps.find({ projectId, name });
    return app ? catalog.byNumber(app.number) : undefined;
  }

  #newId(): string {
    if (this.#isStopping) throw new AppError("draining");
    return this.#ids.next(this.#parts.clock.now());
  }

  async #insert(
    projectId: string,
    { name, payload, registryAuth }: DeployRequest,
    id: string,
  ): Promise<Begun> {
    const { store, clock } = this.#parts;
    const createdAt = clock.now();
    const app = await store.apps.insertOrFind({ projectId, name, createdAt });
    if (this.#parts.owners && !(await this.#parts.owners.takeNew(app.number)))
      throw new AppError("app_moved", { headers: { "retry-after": "1" } });
    const kept: Kept = { request: payload };
    // Before it is stored: a sweep takes what is stored and not under way for left behind.
    await this.#underWay.add(id, app, payload, registryAuth);
    try {
      await store.builds.insert({ id, appNumber: app.number, payload: JSON.stringify(kept), createdAt });
    } catch (error) {
      this.#underWay.drop(id);
      throw error;
    }
    const build = { id, appNumber: app.number, status: "pending", message: null } as const;
    return { build: { ...build, createdAt, updatedAt: createdAt }, app };
  }

  /** Takes in a build that another node began, whose app has come to this one. */
  async #adopt({ id, appNumber, payload }: StoredBuild): Promise<void> {
    const app = await this.#parts.store.apps.findByNumber(appNumber);
    if (!app || !this.#isOurs(appNumber)) throw new AppError("build_not_found");
    // Two uploads of it may come at once.
    if (!this.#underWay.has(id)) await this.#underWay.add(id, app, (JSON.parse(payload) as Kept).request);
  }

  #isOurs(appNumber: number): boolean {
    return this.#parts.owners?.has(appNumber) ?? true;
  }

  /** The first whole upload of a build is its bundle. */
  async #take(id: string, source: ZipSource): Promise<void> {
    if (this.#underWay.isWaiting(id)) {
      void this.#underWay.start(id, source);
      return;
    }
    await this.#uploads.discard(source);
    const build = await this.#parts.store.builds.find(id);
    if (build?.status === "cancelled") throw new AppError("build_finished");
  }

  async #sweepSafely(): Promise<void> {
    try {
      await this.#sweep();
    } catch (error) {
      this.#parts.log.error({ err: error }, "could not look up unfinished builds");
    }
  }

  /** Every build that is not ended is under way here, or waits for its upload, or is ended now. */
  async #sweep(arrived: ReadonlySet<string> = new Set()): Promise<void> {
    const { store, clock } = this.#parts;
    const apps = new Map((await store.apps.listAll()).map((app) => [app.number, app]));
    for (const build of await store.builds.unfinished()) {
      const kept = JSON.parse(build.payload) as Kept;
      if (!this.#isOurs(build.appNumber)) continue;
      const app = apps.get(build.appNumber);
      const isUntouched = build.status === "pending" && !arrived.has(build.id);
      const isHopeful = isUntouched && clock.now() < build.createdAt + UPLOAD_LIFE_MS;
      if (this.#underWay.has(build.id)) {
        const isArriving = this.#arriving.has(build.id);
        if (!isHopeful && !isArriving) await this.#underWay.giveUp(build.id, NEVER_CAME);
      } else if (app && isHopeful) {
        await this.#underWay.add(build.id, app, kept.request);
      } else {
        const message = isUntouched ? NEVER_CAME : STOPPED;
        await settleLeftover(build, app, { ...this.#parts, folders: this.#folders, message });
      }
    }
  }
}
