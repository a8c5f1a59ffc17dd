import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import path from "node:path";
import { BlobDamaged, BlobMissing, type BlobStore, collectBlobs, storeTime } from "../../blobs/blob-store.ts";
import { forgetGone } from "../../blobs/prove-shared.ts";
import { artifactFolders, artifactId } from "../../host/data-folders.ts";
import type { Clock, Timer } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { Unpackable } from "../../kit/tar/pack-folder.ts";
import { NoRoom } from "../../kit/tar/unpack-folder.ts";
import type { Version, VersionBlobs } from "../../model/app.ts";
import { AppError } from "../../model/errors.ts";
import { PROJECT_ID } from "../../model/names.ts";
import type { Store } from "../../store/store.ts";
import { hasEnvironment, knownStandIn, readBlobRecord, writeBlobRecord } from "../builds/environments.ts";
import { type BuildHost, sizeText } from "../builds/site.ts";
import { rebuildVersion } from "../repair-environments.ts";
import { fetchBundle, fetchEnvironment, fetchingDir, interpreterFor } from "./fetch-version.ts";
import { storeBundle, storeEnvironment } from "./store-version.ts";

export type VersionFilesParts = BuildHost & {
  readonly store: Pick<Store, "meta" | "nodes" | "versions" | "versionBlobs">;
  readonly blobs: BlobStore;
  readonly clock: Clock;
  readonly log: Log;
};

type Built = { readonly bundle: string; readonly environment: string | null };

/** So long a blob is left alone after it was put: a build may be about to name it, and may take three hours. */
const YOUNG_MS = 24 * 60 * 60 * 1000;
const COLLECT_MS = 60 * 60 * 1000;
/** Of several nodes one collects; their clocks need not agree about when an hour is over. */
const COLLECT_GAP_MS = COLLECT_MS / 2;
/** The folders that versions name, from the data directory on. */
const BUNDLE = /^bundles\/(p-[a-z0-9]+)\/[a-z0-9-]+\/[\w-]+$/;
const ENVIRONMENT = /^environments\/[\w-]+$/;

/** The files of versions where nodes share a database: in blobs. What others cannot use, such as an image, they rebuild. */
export class VersionFiles {
  readonly #parts: VersionFilesParts;
  readonly #underWay = new Map<string, Promise<"here" | "fetched">>();
  readonly #stopping = new AbortController();
  readonly #work = new Set<Promise<void>>();
  #collecting: Timer | null = null;

  constructor(parts: VersionFilesParts) {
    this.#parts = parts;
  }

  /** Clears up after the service before this one; stores what it has and no blob holds, and collects from now on. */
  async start(): Promise<void> {
    await removeTree(fetchingDir(this.#parts.dataDir));
    this.#do("could not store the files of versions that are in no blob", () => this.#storeMissing());
    this.#collecting = this.#parts.clock.every(COLLECT_MS, () => this.#collect());
  }

  async stop(): Promise<void> {
    this.#collecting?.cancel();
    this.#stopping.abort();
    await Promise.allSettled([...this.#work, ...this.#underWay.values()]);
  }

  /** Stores what a build has made, before the version's row names it. */
  async keep(built: Built, say: (text: string) => void, signal: AbortSignal): Promise<VersionBlobs> {
    const { blobs } = this.#parts;
    const bundle = await storeBundle(built.bundle, blobs, signal);
    const sizes = [`the bundle (${sizeText(bundle.bytes)})`];
    const kept =
      built.environment === null ? null : await this.#keepEnvironment(built.environment, say, signal);
    if (kept?.isNew) sizes.push(`the environment (${sizeText(kept.blob.environmentBytes ?? 0)})`);
    say(`stored ${sizes.join(" and ")} for the other services`);
    return {
      bundleBlob: bundle.hash,
      bundleBytes: bundle.bytes,
      ...(kept?.blob ?? { environmentBlob: null, environmentBytes: null, environmentTag: null }),
    };
  }

  /** Fetches the files of a version unless they are here; throws `app_not_ready` if that fails. */
  async ensure(version: Version): Promise<"here" | "fetched"> {
    if (this.#isHere(version)) return "here";
    const known = this.#underWay.get(version.id) ?? this.#fetch(version);
    this.#underWay.set(version.id, known);
    return await known;
  }

  #isHere(version: Version): boolean {
    const { bundle, environment } = artifactFolders(version, this.#parts.dataDir);
    return existsSync(bundle) && (environment === null || this.#hasEnvironment(environment));
  }

  /** What was built for other machines is no use where apps run on this one. */
  #hasEnvironment(folder: string): boolean {
    return hasEnvironment(folder, Boolean(this.#parts.remote));
  }

  async #fetch(version: Version): Promise<"fetched"> {
    const { log } = this.#parts;
    const { id: versionId, appNumber } = version;
    try {
      await this.#fetchBundle(version);
      await this.#fetchEnvironment(version);
      log.info({ appNumber, versionId }, "fetched the files of a version");
      return "fetched";
    } catch (error) {
      if (!this.#stopping.signal.aborted)
        log.error({ err: error, appNumber, versionId }, "could not fetch the files of a version");
      throw error instanceof AppError ? error : notReady(version, error);
    } finally {
      this.#underWay.delete(versionId);
    }
  }

  async #fetchBundle(version: Version): Promise<void> {
    const { bundle: folder } = artifactFolders(version, this.#parts.dataDir);
    if (existsSync(folder)) return;
    const { bundleBlob: hash, bundleBytes: bytes } = version;
    if (hash === null) throw new NotStored();
    const user = this.#parts.storage.userOf(projectOf(version));
    await fetchBundle({ hash, bytes }, folder, user, this.#parts, this.#stopping.signal);
  }

  async #fetchEnvironment(version: Version): Promise<void> {
    const { dataDir, python, storage, log, remote } = this.#parts;
    const { environment: folder } = artifactFolders(version, dataDir);
    if (folder === null || this.#hasEnvironment(folder)) return;
    const { environmentBlob: hash, environmentBytes: bytes, environmentTag: tag } = version;
    // The machine that runs it fetches it from its blob.
    if (remote && hash !== null) {
      const record = { environmentBlob: hash, environmentBytes: bytes, environmentTag: tag, putAt: 0 };
      return await knownStandIn(folder, (to) => writeBlobRecord(to, record));
    }
    const interpreter = tag === null ? null : await interpreterFor(tag, python);
    if (hash === null || interpreter === null) return await this.#rebuild(version, folder);
    const user = storage.userOf(projectOf(version));
    const { signal } = this.#stopping;
    try {
      await fetchEnvironment({ hash, bytes }, folder, { user, interpreter }, this.#parts, signal);
    } catch (error) {
      if (!isGone(error)) throw error;
      log.warn({ err: error, versionId: version.id }, "the packages of a version are in no blob any more");
      await this.#rebuild(version, folder);
    }
  }

  /** Builds an environment again from the same inputs, in the folder that the version names. */
  async #rebuild(version: Version, environmentDir: string): Promise<void> {
    const { dataDir, log } = this.#parts;
    const { id: versionId, environmentTag } = version;
    const detail = environmentTag === null ? "they are in no blob" : `they are for ${environmentTag}`;
    log.info({ versionId, detail }, "installing the packages of a version again for this machine");
    const say = (line: string): void =>
      log.debug({ versionId, detail: line }, "reinstalling an app's packages");
    const parts = { ...this.#parts, say, signal: this.#stopping.signal, environmentDir };
    const work = path.join(fetchingDir(dataDir), randomUUID());
    await rebuildVersion(projectOf(version), version, work, parts, async () => {});
  }

  async #keepEnvironment(folder: string, say: (text: string) => void, signal: AbortSignal) {
    const { store, blobs, dataDir } = this.#parts;
    // The same packages are shared by many versions: packing them takes longer than all the rest of a deploy.
    const known = await store.versionBlobs.ofEnvironment(artifactId(folder, dataDir));
    if (known?.environmentBlob && (await blobs.has(known.environmentBlob)))
      return { blob: known, isNew: false };
    const record = readBlobRecord(folder);
    if (record) {
      const { environmentBlob, environmentBytes, environmentTag } = record;
      return { blob: { environmentBlob, environmentBytes, environmentTag }, isNew: false };
    }
    try {
      const { hash, bytes, tag } = await storeEnvironment(folder, blobs, dataDir, signal);
      return { blob: { environmentBlob: hash, environmentBytes: bytes, environmentTag: tag }, isNew: true };
    } catch (error) {
      if (!(error instanceof Unpackable)) throw error;
      const what = "the environment cannot be copied to other services, each of them builds it again";
      say(`${what}: ${error.message}`);
      return null;
    }
  }

  /** Stores versions that are in no blob: their packages were installed again, or the blob store did not take them. */
  async #storeMissing(): Promise<void> {
    const { store, log, dataDir } = this.#parts;
    const { signal } = this.#stopping;
    for (const version of await store.versions.listAll()) {
      if (signal.aborted) return;
      const lacksEnvironment = version.environment !== null && version.environmentBlob === null;
      if ((version.bundleBlob !== null && !lacksEnvironment) || !this.#isHere(version)) continue;
      const say = (detail: string): void => log.info({ versionId: version.id, detail }, "storing a version");
      try {
        const blobs = await this.keep(artifactFolders(version, dataDir), say, signal);
        await store.versionBlobs.add({ id: version.id, blobs });
      } catch (error) {
        if (signal.aborted) return;
        log.error({ err: error, versionId: version.id }, "could not store the files of a version");
      }
    }
  }

  #collect(): void {
    this.#do("could not remove blobs that no version names", async () => {
      const { store, blobs, log } = this.#parts;
      if (!(await store.versionBlobs.takeCollection(COLLECT_GAP_MS))) return;
      const youngSince = (await storeTime(blobs)) - YOUNG_MS;
      const { named } = store.versionBlobs;
      const count = await collectBlobs(blobs, named, youngSince, this.#stopping.signal);
      if (count > 0) log.info({ count }, "removed blobs that no version names");
      const instanceId = (await store.meta.get("instance_id")) ?? "";
      const { living } = await store.nodes.list();
      await forgetGone(blobs, { instanceId, living: living.map(({ id }) => id), before: youngSince });
    });
  }

  #do(failure: string, work: () => Promise<void>): void {
    const doing = work()
      .catch((error: unknown) => {
        if (!this.#stopping.signal.aborted) this.#parts.log.error({ err: error }, failure);
      })
      .finally(() => this.#work.delete(doing));
    this.#work.add(doing);
  }
}

/** The service that made a version has not stored it in blobs. */
class NotStored extends Error {
  constructor() {
    super("the version is in no blob: the service that has its files stores them when it starts");
    this.name = "NotStored";
  }
}

/** The project of a version. Checks its names, which come from the database and become paths. */
function projectOf({ bundle, environment }: Version): string {
  const projectId = BUNDLE.exec(bundle)?.[1] ?? "";
  if (!PROJECT_ID.test(projectId) || (environment !== null && !ENVIRONMENT.test(environment)))
    throw new Error(`a version names files that are none of ours: ${bundle}, ${environment}`);
  return projectId;
}

function isGone(error: unknown): boolean {
  return error instanceof BlobMissing || error instanceof BlobDamaged;
}

function notReady({ number }: Version, error: unknown): AppError {
  const why = isGone(error)
    ? "are no longer in the blob store, or damaged there: deploy the app again, or restore a backup"
    : error instanceof NoRoom
      ? `do not fit on this service's disk: make room there (${error.message})`
      : error instanceof NotStored
        ? "are on another service, which has not stored them yet: start that service with this release, or deploy the app again"
        : "could not be fetched: see the service's log";
  const message = `The app cannot start: the files of version ${number} ${why}.`;
  return new AppError("app_not_ready", { message, headers: { "retry-after": "1" } }, error);
}
