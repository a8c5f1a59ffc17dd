import path from "node:path";
import type { Timer } from "../../kit/clock.ts";
import type { App } from "../../model/app.ts";
import { type Build, type BuildStatus, isFinalBuild } from "../../model/build.ts";
import {
  type CarryOutParts,
  type DryRun,
  dryRun,
  type DryRunRequest,
  forgetVersion,
  type ZipSource,
  workDir,
} from "./carry-out.ts";
import { isDeepStrictEqual } from "node:util";
import type { Readable } from "node:stream";
import { rm } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { loadAppConfig } from "../../config/app-config.ts";
import { Counts } from "../../kit/concurrency.ts";
import { UuidSource } from "../../kit/ids.ts";
import type { Seal } from "../../kit/seal.ts";
import type { Owners } from "../../nodes/owners.ts";
import type { StoredBuild } from "../../store/apps/builds.ts";
import { AppError } from "../../model/errors.ts";
import { hashFolder } from "../bundles/list-files.ts";
import type { LiveApp } from "../versions/open-version.ts";
import { BuildLogs } from "./build-log.ts";
import { type DeployRequest, type Payload, readDeployRequest, THIS_HOST } from "./deploy-request.ts";
import { BuildsUnderWay } from "./under-way.ts";
import { readPast, receiveFile } from "./uploads.ts";
import { Grants } from "../grants.ts";

export type DeployerParts = CarryOutParts & {
  readonly seal: Seal;
  readonly maxUploadBytes: number;
  /** Whether the disk is to take no more. */
  readonly shortage: () => string | null;
  /** Which apps are this service's; null where it is the only one. */
  readonly owners: Pick<Owners, "has" | "takeNew"> | null;
};

type Begun = { readonly build: Build; readonly app: App };

/** What is stored of a build beside its status; `hasUpload` once its bundle has come. */
type Kept = {
  /** The account or person that deploys; absent for a folder, and for builds of earlier releases. The first member. */
  readonly by?: string;
  readonly request: Payload;
  readonly hasUpload?: true;
};

/** Who deployed a build: the id of an account or a person; null if that is not known. */
export function deployedBy({ payload }: Pick<StoredBuild, "payload">): string | null {
  // The rest may be long, and a list has many.
  return /^\{"by":"([\w-]+)"/.exec(payload)?.[1] ?? null;
}

const SWEEP_MS = 60_000;
/** How long a build waits for its upload. */
const UPLOAD_LIFE_MS = 3_600_000;
const UPLOAD = "bundle upload";
/** Longer than reading a large bundle and asking a slow index for its packages takes. */
const DRY_RUN_MS = 5 * 60_000;
const STOPPED = "the service stopped during this deploy; deploy again";
const NODE_ENDED = "the node that built it ended; deploy again";
const NEVER_CAME = "nothing was uploaded within an hour; deploy again";

/** The life of deploys: from a payload and an upload, or a folder, to a version that serves. */
export class Deployer {
  readonly logs: BuildLogs;
  readonly #parts: DeployerParts;
  /** Sorted by birth whatever the clock does: the last build is the newest. */
  readonly #ids = new UuidSource();
  /** The rights to send the bundles of builds. */
  readonly #grants: Grants;
  /** Each arrival has a file of its own: a sender that retries need not wait for the attempt before. */
  #arrivals = 0;
  readonly #underWay: BuildsUnderWay;
  /** Builds whose upload is arriving just now, with how many times. */
  readonly #arriving = new Counts<string>();
  /** Apps for which a build is about to be under way, with how many times. */
  readonly #beginning = new Counts<number>();
  #timer: Timer | null = null;
  #sweeping: Promise<void> | null = null;
  #isAsked = false;
  #isStopping = false;

  constructor(parts: DeployerParts) {
    this.#parts = parts;
    this.logs = new BuildLogs(parts);
    this.#grants = new Grants(parts.seal, parts.clock);
    this.#underWay = new BuildsUnderWay(parts, this.logs);
  }

  /** How many builds have ended, by how. */
  get ended(): ReadonlyMap<BuildStatus, number> {
    return this.#underWay.ended;
  }

  /** Clears up after the service before this one, and every minute after builds that were abandoned. */
  async start(): Promise<void> {
    await removeTree(workDir(this.#parts.dataDir));
    await rm(this.#uploadsDir, { recursive: true, force: true });
    await this.#sweep();
    this.#timer = this.#parts.clock.every(SWEEP_MS, () => this.look());
  }

  /** Looks soon for abandoned builds: their apps may have just come to this service. */
  look(): void {
    this.#isAsked = true;
    this.#sweeping ??= this.#sweepSafely().finally(() => (this.#sweeping = null));
  }

  /** Begins a deploy whose bundle is to be uploaded; throws `deploy_invalid`. */
  async begin(projectId: string, payload: Payload, by?: string): Promise<Begun & { readonly grant: string }> {
    const request = readDeployRequest(payload);
    const begun = await this.#insert(projectId, request, keptOf(request, by), this.#newId());
    return { ...begun, grant: this.#grants.give(UPLOAD, { buildId: begun.build.id }, UPLOAD_LIFE_MS) };
  }

  /** The app whose bundle a right is for; null if there is none any more. */
  async appOfGrant(grant: string): Promise<App | null> {
    const { store } = this.#parts;
    const build = await store.builds.find(this.#granted(grant));
    return build && (await store.apps.findByNumber(build.appNumber));
  }

  /** Takes a bundle that a right is for; its end starts the build. A bundle that came before is read and ignored. */
  async upload(grant: string, from: Readable): Promise<Build> {
    const id = this.#granted(grant);
    const build = await this.#parts.store.builds.find(id);
    if (!build) throw new AppError("build_not_found");
    if (build.status === "cancelled") throw new AppError("build_finished");
    return await this.#beginning.during(build.appNumber, async () => {
      if (build.status === "pending") await this.#adopt(build);
      if (!this.#underWay.isWaiting(id)) {
        await readPast(from, this.#parts.maxUploadBytes);
        return build;
      }
      await this.#arriving.during(id, async () => {
        const source = await this.#receive(id, from);
        await this.#orDiscard(source, () => this.#take(build, source));
      });
      return build;
    });
  }

  /** Begins a deploy with its bundle, in one go. Nothing is stored before the bundle has come. */
  async deployUpload(projectId: string, name: string, from: Readable, by?: string): Promise<Begun> {
    const request = readDeployRequest({ name });
    const kept = keptOf(request, by);
    const id = this.#newId();
    const source = await this.#receive(id, from);
    return await this.#orDiscard(source, async () => {
      const begun = await this.#insert(projectId, request, kept, id);
      await this.#take({ ...begun.build, payload: JSON.stringify(kept) }, source);
      return begun;
    });
  }

  /** What a deploy of this bundle would do, and whether it would create the app; changes nothing. */
  async dryRun(
    { projectId, name, checksSyntax }: Pick<DryRunRequest, "projectId" | "name" | "checksSyntax">,
    from: Readable,
  ): Promise<DryRun & { readonly isNew: boolean }> {
    // Throws what is wrong with the name.
    readDeployRequest({ name });
    const id = this.#newId();
    const source = await this.#receive(id, from);
    const signal = AbortSignal.timeout(DRY_RUN_MS);
    const request = { id, projectId, name, checksSyntax, source, signal };
    try {
      const found = await dryRun(request, this.#parts);
      return { ...found, isNew: (await this.#parts.store.apps.find({ projectId, name })) === null };
    } finally {
      // Unpacking removes it, unless the bundle is refused before.
      await discard(source);
    }
  }

  /** Makes a folder the app's current version, without a check. An unchanged folder changes nothing. */
  async deployFolder(projectId: string, folder: string): Promise<LiveApp> {
    const { config, warnings } = loadAppConfig(folder, { host: THIS_HOST });
    for (const warning of warnings) this.#parts.log.warn({ folder, warning }, "app configuration");
    const name = config.deployment.name ?? path.basename(folder).toLowerCase();
    const patterns = config.deployment;
    const hash = await hashFolder(folder, patterns);
    const { store, catalog } = this.#parts;
    const app = await store.apps.find({ projectId, name });
    const current = app ? catalog.byNumber(app.number) : undefined;
    if (current?.version.bundleHash === hash) {
      const deployment = { ...config.deployment, name };
      const scaling = { ...config.scaling, ...current.version.overrides };
      const { built: _, ...asWritten } = current.version.config;
      if (isDeepStrictEqual(asWritten, { ...config, deployment, scaling })) return current;
    }
    const request = readDeployRequest({ name });
    const { build } = await this.#insert(projectId, request, keptOf(request), this.#newId());
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
    // One that could no longer be cancelled has ended too.
    await Promise.allSettled(ids.map((id) => this.#underWay.cancel(id)));
  }

  /** Whether a build of the app is under way, or its upload. */
  isBuilding(appNumber: number): boolean {
    const isUnderWay = (id: string): boolean => !this.#underWay.isStale(id);
    return this.#beginning.has(appNumber) || this.#underWay.ofApp(appNumber).some(isUnderWay);
  }

  /** Builds that are being made fail; those that wait for an upload keep waiting. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#timer?.cancel();
    await this.#sweeping;
    await this.#underWay.stop(STOPPED);
  }

  #newId(): string {
    if (this.#isStopping) throw new AppError("draining");
    return this.#ids.next(this.#parts.clock.now());
  }

  async #insert(projectId: string, request: DeployRequest, kept: Kept, id: string): Promise<Begun> {
    const { name, payload, registryAuth } = request;
    const { store, clock } = this.#parts;
    const createdAt = clock.now();
    const app = await store.apps.insertOrFind({ projectId, name, createdAt });
    return await this.#beginning.during(app.number, async () => {
      await this.#requireOurs(app.number);
      // Before it is stored: a sweep takes what is stored and not under way for left behind.
      await this.#underWay.add({ id, app, payload, registryAuth, addedAt: clock.monotonic() });
      try {
        await store.builds.insert({ id, appNumber: app.number, payload: JSON.stringify(kept), createdAt });
      } catch (error) {
        this.#underWay.drop(id);
        throw error;
      }
      const build = { id, appNumber: app.number, status: "pending", message: null } as const;
      return { build: { ...build, createdAt, updatedAt: createdAt }, app };
    });
  }

  /** The app is ours, and is not moved while something is begun for it; throws `app_moved`. */
  async #requireOurs(appNumber: number): Promise<void> {
    const { owners } = this.#parts;
    if (owners && !(await owners.takeNew(appNumber)))
      throw new AppError("app_moved", { headers: { "retry-after": "1" } });
  }

  /** Takes in a build that another node began, whose app has come to this one, unless it is under way here. */
  async #adopt({ id, appNumber, payload }: StoredBuild): Promise<void> {
    await this.#requireOurs(appNumber);
    if (this.#underWay.has(id)) return;
    const app = await this.#parts.store.apps.findByNumber(appNumber);
    if (!app) throw new AppError("build_not_found");
    // Two uploads of it may come at once.
    if (!this.#underWay.has(id)) await this.#takeOver(id, app, (JSON.parse(payload) as Kept).request);
  }

  async #takeOver(id: string, app: App, payload: Kept["request"]): Promise<void> {
    await this.#underWay.add({ id, app, payload, registryAuth: null, addedAt: Number.NEGATIVE_INFINITY });
  }

  get #uploadsDir(): string {
    return path.join(this.#parts.dataDir, "uploads");
  }

  /** Which build a right is for; throws `forbidden` if it is invalid or has expired. */
  #granted(grant: string): string {
    const granted = this.#grants.read(UPLOAD, grant) as { readonly buildId: string } | null;
    if (granted) return granted.buildId;
    throw new AppError("forbidden", { message: "The upload address is invalid or has expired." });
  }

  /** Stores a bundle as it arrives; resolves with its file, safely on the disk. */
  async #receive(buildId: string, from: Readable): Promise<ZipSource> {
    const { maxUploadBytes: maxBytes, shortage } = this.#parts;
    this.#arrivals += 1;
    const file = path.join(this.#uploadsDir, `${buildId}.${this.#arrivals}.zip`);
    const { bytes } = await receiveFile(from, file, { maxBytes, shortage });
    return { kind: "zip", file, bytes };
  }

  /** A bundle that could not be taken is not left on the disk. */
  async #orDiscard<Taken>(source: ZipSource, take: () => Promise<Taken>): Promise<Taken> {
    try {
      return await take();
    } catch (error) {
      await discard(source);
      throw error;
    }
  }

  /** The first whole upload of a build is its bundle. */
  async #take({ id, payload }: StoredBuild, source: ZipSource): Promise<void> {
    const { store } = this.#parts;
    if (this.#underWay.isWaiting(id)) {
      // Its sender learns that it has arrived and waits for the end, even if this service stops.
      const kept: Kept = { ...(JSON.parse(payload) as Kept), hasUpload: true };
      await store.builds.noteUpload({ id, payload: JSON.stringify(kept) });
    }
    if (this.#underWay.isWaiting(id)) {
      void this.#underWay.start(id, source);
      return;
    }
    await discard(source);
    const build = await store.builds.find(id);
    if (build?.status === "cancelled") throw new AppError("build_finished");
  }

  async #sweepSafely(): Promise<void> {
    try {
      while (this.#isAsked) {
        this.#isAsked = false;
        await this.#sweep();
      }
    } catch (error) {
      this.#parts.log.error({ err: error }, "could not look up unfinished builds");
    }
  }

  /** Every build of our apps that is not ended is under way here, or waits for its upload, or is ended now. */
  async #sweep(): Promise<void> {
    const { store, owners } = this.#parts;
    for (const build of await store.builds.unfinished()) {
      if (owners?.has(build.appNumber) ?? true) await this.#settle(build);
      // Its upload is taken where its app is.
      else if (this.#underWay.isWaiting(build.id) && !this.#arriving.has(build.id))
        this.#underWay.drop(build.id);
    }
  }

  async #settle(build: StoredBuild): Promise<void> {
    const { store, clock, owners } = this.#parts;
    const { request, hasUpload } = JSON.parse(build.payload) as Kept;
    const isWaiting = build.status === "pending" && !hasUpload;
    const isLate = clock.now() >= build.createdAt + UPLOAD_LIFE_MS;
    if (this.#underWay.has(build.id)) {
      // Also one that has `hasUpload` and waits: its sender got an error.
      if (isLate && !this.#arriving.has(build.id)) await this.#underWay.giveUp(build.id, NEVER_CAME);
      return;
    }
    const app = await store.apps.findByNumber(build.appNumber);
    if (app && isWaiting && !isLate) {
      if (!this.#underWay.has(build.id)) await this.#takeOver(build.id, app, request);
      return;
    }
    const { id } = build;
    // It may have ended since it was found.
    const found = await store.builds.find(id);
    if (!found || isFinalBuild(found.status)) return;
    const now = clock.now();
    // Its service left it unfinished: a success if its version serves.
    if (app?.currentVersionId === id)
      return void (await store.builds.move({ id, to: "success", message: null, now }));
    if (app) await forgetVersion(this.#parts, app, id);
    const message = isWaiting ? NEVER_CAME : owners ? NODE_ENDED : STOPPED;
    await store.builds.move({ id, to: "build_failure", message, now });
  }
}

async function discard({ file }: ZipSource): Promise<void> {
  await rm(file, { force: true });
}

function keptOf({ payload }: DeployRequest, by?: string): Kept {
  return { ...(by !== undefined && { by }), request: payload };
}
