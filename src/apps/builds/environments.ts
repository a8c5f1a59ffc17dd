import path from "node:path";
import { createHash } from "node:crypto";
import { syncFolder } from "../bundles/place-folder.ts";
import { hashPath } from "./bundle-files.ts";
import type { BundlePath, Requirements } from "./requirements.ts";
import { existsSync, readFileSync, statSync, utimesSync } from "node:fs";
import { chownTree, lchown, mkdir, readdir, rm, writeFile } from "../../kit/files.ts";
import type { EnvironmentBlob } from "../../store/apps/versions.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import type { Interpreter } from "../../host/interpreter.ts";
import { IMAGE_RECORD, readImageRecord } from "../../host/containers/containers.ts";
import { createEnvironment, installInto } from "./make-environment.ts";
import type { BuildSite } from "./site.ts";

/** Changes when environments are made in another way. */
const MAKING = 2;

/** Names a project's environment by all that decides what is in it. Installing may run code: projects share none. */
async function environmentKey(
  projectId: string,
  { packages, constraints, locals, links, flags }: Requirements,
  runsOn: readonly string[],
  signal: AbortSignal,
): Promise<string> {
  const hashed = async (files: readonly (BundlePath & { readonly after?: string })[]) => {
    const all: string[][] = [];
    // One by one: each has a file open, and there may be as many as lines.
    for (const { name, fullPath, after } of files)
      all.push([name, await hashPath(fullPath, signal), ...(after === undefined ? [] : [after])]);
    return all;
  };
  const inputs = [MAKING, runsOn, packages, constraints, await hashed(locals), await hashed(links), flags];
  // Half of it is plenty, and keeps the first line of scripts short enough for every kernel.
  const hash = createHash("sha256").update(JSON.stringify(inputs)).digest("hex").slice(0, 32);
  return `${projectId}-${hash}`;
}

/** In an environment's folder, in place of its packages: those are in a blob, for other machines. */
const BLOB_RECORD = "blob.json";

/** An environment that was built on another machine. */
type BlobRecord = EnvironmentBlob & {
  /** When its blob was put, in epoch milliseconds by this service's clock: one that no version names is collected later. */
  readonly putAt: number;
};

export async function writeBlobRecord(environment: string, record: BlobRecord): Promise<void> {
  await writeFile(path.join(environment, BLOB_RECORD), JSON.stringify(record));
}

/** The blob that holds an environment; null where it is a folder of packages. */
export function readBlobRecord(environment: string): BlobRecord | null {
  try {
    // Only the service writes it.
    // oxlint-disable-next-line no-unsafe-type-assertion
    return JSON.parse(readFileSync(path.join(environment, BLOB_RECORD), "utf8")) as BlobRecord;
  } catch {
    return null;
  }
}

/** The marker of a complete environment, written last: holds the folder's path, and the time of the last build that used it. */
export const READY = "ready";
/** In the name of one that a single build has to itself, after its project's. */
const OWN = "-own-";
/** Longer than a first replica may take to become ready. */
const KEEP_OWN_MS = 3 * 60 * 60 * 1000;

/** Environments that are being made or removed in this process, by folder. */
const busy = new Map<string, Promise<void>>();
/** Environments that builds of this process use, by folder, with the builds' ids: no version names them yet. */
const held = new Map<string, Set<string>>();

type InUse = () => Promise<ReadonlySet<string>>;

/** The environment that holds these packages: one that exists, or a new one. */
export async function sharedEnvironment(
  requirements: Requirements,
  python: Interpreter,
  site: BuildSite,
): Promise<string> {
  const runsOn = [process.platform, process.arch, python.version, python.path];
  const folder = await sharedFolder(requirements, runsOn, site);
  await unlessReady(folder, hasPackages, site, async () => {
    await createEnvironment(folder, false, python, site);
    await installInto(folder, requirements, python, site);
    await close(folder, site);
  });
  return folder;
}

/** The folder of the environment that holds these packages, for what they are to run on. */
export async function sharedFolder(
  requirements: Requirements,
  runsOn: readonly string[],
  { environmentDir, dataDir, projectId, signal }: BuildSite,
): Promise<string> {
  if (environmentDir !== undefined) return environmentDir;
  return path.join(environmentsDir(dataDir), await environmentKey(projectId, requirements, runsOn, signal));
}

/** Makes one that is not there, unless another build is doing so. */
async function unlessReady(
  folder: string,
  isWhole: (folder: string) => boolean,
  site: BuildSite,
  make: () => Promise<void>,
): Promise<void> {
  for (;;) {
    if (isReady(folder, isWhole)) {
      hold(folder, site.buildId);
      site.say("dependencies unchanged, reusing the environment");
      return;
    }
    const other = busy.get(folder);
    if (!other) break;
    site.say("another build is creating the same environment; waiting for it");
    await settled(other, site.signal);
  }
  hold(folder, site.buildId);
  await alone(folder, make);
}

/** Leaves in the folder of an environment whose packages are in an image or a blob the record of which. */
type MakeRecord = (folder: string) => Promise<void>;

export async function sharedStandIn(folder: string, site: BuildSite, make: MakeRecord): Promise<void> {
  await unlessReady(folder, isStandIn, site, () => standIn(folder, make));
}

/** An environment of one build whose packages are in an image or a blob. */
export async function ownStandIn(site: BuildSite, make: MakeRecord): Promise<string> {
  return await own(site, (folder) => standIn(folder, make));
}

/** An environment that another service has had built, whose packages are in a blob. */
export async function knownStandIn(folder: string, make: MakeRecord): Promise<void> {
  await untilFree(folder);
  if (!isReady(folder, isStandIn)) await alone(folder, () => standIn(folder, make));
}

/** Removes one whose record is no longer true, unless a build relies on it, or it has changed meanwhile. */
export async function dropStandIn(folder: string, isUntrue: () => boolean): Promise<void> {
  await untilFree(folder);
  if (!held.has(folder) && isUntrue()) await occupied(folder, () => removeTree(folder));
}

async function standIn(folder: string, make: MakeRecord): Promise<void> {
  await removeTree(folder);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await make(folder);
  await markReady(folder);
}

/** A new environment, empty, that one build has to itself, so that its commands may change it. */
export async function ownEnvironment(python: Interpreter, site: BuildSite): Promise<string> {
  return await own(site, async (folder) => {
    await createEnvironment(folder, true, python, site);
    await markReady(folder);
  });
}

async function own(site: BuildSite, make: (folder: string) => Promise<void>): Promise<string> {
  const { environmentDir, dataDir, projectId, buildId } = site;
  const folder = environmentDir ?? path.join(environmentsDir(dataDir), projectId + OWN + buildId);
  hold(folder, buildId);
  await alone(folder, () => make(folder));
  return folder;
}

/** An environment from another machine: `fill` puts it into its empty folder. False if it is here already. */
export async function fetchedEnvironment(
  folder: string,
  user: number | null,
  fill: () => Promise<void>,
): Promise<boolean> {
  await untilFree(folder);
  if (isReady(folder, hasPackages)) return false;
  await alone(folder, async () => {
    await removeTree(folder);
    await mkdir(folder, { recursive: true, mode: 0o755 });
    await fill();
    if (user !== null) await chownTree(folder, user);
    await close(folder, { user });
  });
  return true;
}

/** Whether an environment is here, whole: its packages or its image, or for other machines the record of its blob. */
export function hasEnvironment(folder: string, isForOthers: boolean): boolean {
  const isHere = readImageRecord(folder) !== null || hasPackages(folder);
  return wantedTime(folder) !== null && (isHere || (isForOthers && isStandIn(folder)));
}

/** Marks an environment as complete; from now on only the service writes beside the marker. */
export async function close(folder: string, { user }: Pick<BuildSite, "user">): Promise<void> {
  if (user !== null) await lchown(folder, 0, 0);
  // These would have the app run in an image, or with packages, that its build has not made.
  for (const record of [IMAGE_RECORD, BLOB_RECORD]) await removeTree(path.join(folder, record));
  await markReady(folder);
}

/** A build has ended, and a version names what it used: it holds no environment any more. */
export function releaseEnvironments(buildId: string): void {
  for (const [folder, builds] of held) if (builds.delete(buildId) && builds.size === 0) held.delete(folder);
}

/** Removes environments that no version uses and no build has wanted for `keepMs`; unfinished ones after `unfinishedMs`. */
export async function sweepEnvironments(
  dataDir: string,
  inUse: InUse,
  { keepMs, unfinishedMs = 0, now = Date.now() }: { keepMs: number; unfinishedMs?: number; now?: number },
): Promise<void> {
  const root = environmentsDir(dataDir);
  const used = await inUse();
  for (const name of await readdir(root).catch(() => [])) {
    const folder = path.join(root, name);
    const wantedAt = wantedTime(folder);
    const isNew =
      wantedAt === null
        ? unfinishedMs > 0 && now - (statSync(folder, { throwIfNoEntry: false })?.ctimeMs ?? 0) < unfinishedMs
        : now - wantedAt < (name.includes(OWN) ? KEEP_OWN_MS : keepMs);
    if (!used.has(folder) && !isNew) await removeUnused(folder, inUse);
  }
}

/** Removes one that no version uses any more, unless a build has wanted it after that time, in milliseconds. */
export async function dropEnvironment(folder: string, usedAt: number, inUse: InUse): Promise<void> {
  const wantedAt = wantedTime(folder);
  if (wantedAt !== null && wantedAt <= usedAt) await removeUnused(folder, inUse);
}

/** Removes one that is not in use. It is locked first: a build that released it before has stored its version. */
async function removeUnused(folder: string, inUse: InUse): Promise<void> {
  if (busy.has(folder) || held.has(folder)) return;
  await occupied(folder, async () => {
    if ((await inUse()).has(folder)) return;
    // First: from here on it no longer counts, should this process end in between.
    await rm(path.join(folder, READY), { force: true });
    await removeTree(folder);
  });
}

export function environmentsDir(dataDir: string): string {
  return path.join(dataDir, "environments");
}

/** Whether its Python is there, a link to the host's that may have been removed, and no work on it is under way. */
function hasPackages(folder: string): boolean {
  return existsSync(path.join(folder, "bin", "python")) && !busy.has(folder);
}

/** Whether it says which blob has its packages, and no work on it is under way. */
function isStandIn(folder: string): boolean {
  return readBlobRecord(folder) !== null && !busy.has(folder);
}

/** Whether it is complete; a yes keeps it from being swept for a while. */
function isReady(folder: string, isWhole: (folder: string) => boolean): boolean {
  if (!isWhole(folder)) return false;
  try {
    const now = new Date();
    utimesSync(path.join(folder, READY), now, now);
    return true;
  } catch {
    return false;
  }
}

async function markReady(folder: string): Promise<void> {
  const marker = path.join(folder, READY);
  // A build may have put a link there, to have the service write where the link leads.
  await removeTree(marker);
  await writeFile(marker, folder, { flag: "wx" });
  for (const target of [marker, folder, path.dirname(folder)]) await syncFolder(target);
}

function hold(folder: string, buildId: string): void {
  held.set(folder, (held.get(folder) ?? new Set()).add(buildId));
}

/** When a build last wanted it; null for an unfinished one. */
function wantedTime(folder: string): number | null {
  return statSync(path.join(folder, READY), { throwIfNoEntry: false })?.mtimeMs ?? null;
}

async function untilFree(folder: string): Promise<void> {
  for (let other = busy.get(folder); other; other = busy.get(folder)) await other.catch(() => undefined);
}

/** Makes something in a folder, which it locks; a failure leaves nothing behind. */
async function alone(folder: string, work: () => Promise<void>): Promise<void> {
  await occupied(folder, async () => {
    try {
      await work();
    } catch (error) {
      await removeTree(folder);
      throw error;
    }
  });
}

async function occupied(folder: string, work: () => Promise<void>): Promise<void> {
  const working = work().finally(() => busy.delete(folder));
  busy.set(folder, working);
  await working;
}

/** Waits for a promise to settle; throws the signal's reason when cancelled. */
async function settled(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  const { promise: aborted, resolve } = Promise.withResolvers<void>();
  const onAbort = (): void => resolve();
  signal.addEventListener("abort", onAbort);
  await Promise.race([promise.catch(() => {}), aborted]);
  signal.removeEventListener("abort", onAbort);
  signal.throwIfAborted();
}
