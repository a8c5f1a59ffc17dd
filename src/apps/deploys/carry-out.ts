import path from "node:path";
import { chownTree, mkdir, open, rename, rm, withHandle } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { loadAppConfig } from "../../config/app-config.ts";
import { type CogModel, cogMain, describeCog } from "../../config/cog.ts";
import { isTable } from "../../config/toml.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { App, Version } from "../../model/app.ts";
import type { AppConfig } from "../../model/app-config.ts";
import type { BuildStatus } from "../../model/build.ts";
import type { LogStream } from "../../model/log-line.ts";
import { AppError, isInDoubt } from "../../model/errors.ts";
import { artifactId } from "../../host/data-folders.ts";
import { type NetworkWall, unkept } from "../../host/walls/network.ts";
import type { Store } from "../../store/store.ts";
import type { VersionFiles } from "../artifacts/version-files.ts";
import { prepareBuild } from "../builds/build.ts";
import { BuildError, type BuildHost, buildHost, sizeText } from "../builds/site.ts";
import type { PreparedBuild } from "../builds/commands.ts";
import { type RegistryAuth, SYNTAX_MEMBER, THIS_HOST } from "./deploy-request.ts";
import { copyFolder, syncFolder } from "../bundles/place-folder.ts";
import { extractBundle } from "../bundles/extract.ts";
import { BundleError } from "../bundles/zip-directory.ts";
import type { BundlePatterns } from "../bundles/list-files.ts";
import type { Candidate, Check } from "../versions/candidate.ts";
import type { Catalog } from "../catalog.ts";
import type { LiveApp } from "../versions/open-version.ts";
import type { InitFailure } from "../../engines/engine.ts";
import type { Room } from "../versions/traffic.ts";
import type { BuildLog } from "./build-log.ts";
import { inspectBuild } from "../builds/inspect.ts";
import { ConfigError } from "../../config/problems.ts";

export type CarryOutParts = BuildHost & {
  readonly store: Store;
  readonly catalog: Catalog;
  /** Keeps what was built for the other nodes; null for a service alone. */
  readonly files: Pick<VersionFiles, "keep"> | null;
  readonly network: NetworkWall;
  readonly clock: Clock;
  readonly log: Log;
};

const SINGLE =
  "the server listens on the port in its code, not on the one in PORT, so it runs as one replica, which ends before another version starts; have it read PORT, name the port in runtime.custom.entrypoint, or run the service with isolation, which gives each replica a port of its own";

const ONE_AFTER_THE_OTHER =
  "the server that runs now has a port in its code that the new one needs: it ends before the new one starts, and calls wait meanwhile";

const contested = (port: number): string =>
  `TCP port ${port} is in use, perhaps by the server that runs now: that one ends before the new one is tried again, and calls wait meanwhile`;

const SAME_GPUS =
  "the GPUs of this machine have no room for the new version beside the one that runs now: that one ends first, and calls wait meanwhile";

/** What another version of the app may have that a candidate needs; null if that is not why it failed. */
function whatIsInTheWay({ portInUse, lacksGpu }: Pick<InitFailure, "portInUse" | "lacksGpu">): string | null {
  if (lacksGpu) return SAME_GPUS;
  return portInUse === undefined ? null : contested(portInUse);
}

const NO_PORT_WITHOUT_NETWORK =
  "network = false leaves a server no port to listen on: remove it, or offer functions in main.py instead of [runtime.custom]";

const ACCEPT_UNENFORCED = "the operator can set MILLRACE_NETWORK_UNENFORCED=warn to accept such apps";

/** Where deploys are made, below the data directory. */
export function workDir(dataDir: string): string {
  return path.join(dataDir, "work");
}

/** The folder that keeps a version's bundle. */
function bundleOf(dataDir: string, { projectId, name }: App, versionId: string): string {
  return path.join(dataDir, "bundles", projectId, name, versionId);
}

export type ZipSource = { readonly kind: "zip"; readonly file: string; readonly bytes: number };

/** Where a bundle comes from: an upload, or a folder on this machine that is taken as it is, untried. */
export type Source =
  | ZipSource
  | {
      readonly kind: "folder";
      readonly folder: string;
      readonly patterns: BundlePatterns;
      readonly hash: string;
    };

type Deploy = {
  readonly buildId: string;
  readonly app: App;
  readonly payload: unknown;
  /** What opens the registries of its images; null for what the service itself can open. */
  readonly registryAuth: RegistryAuth | null;
  readonly source: Source;
  readonly log: Pick<BuildLog, "say">;
  readonly signal: AbortSignal;
  /** From here on it cannot be stopped. */
  readonly onSwitch: () => void;
};

/** Takes a deploy from its source to a version that serves. Each status is stored first; a failure leaves only its log. */
export async function carryOut(deploy: Deploy, parts: CarryOutParts): Promise<LiveApp> {
  await move(deploy, parts, "building");
  const unpacked = await unpack(deploy, parts.dataDir);
  const { config, cog } = readConfig(deploy, unpacked.bundleDir, parts);
  if (cog !== null) {
    deploy.log.say("extract", describeCog(cog, config));
    await writeMain(unpacked.bundleDir, cog);
  }
  // At once: another deploy may have been waiting to compare its minimums, too.
  const leaveRoom = parts.catalog.gpuRoom.keep(deploy.app, config);
  try {
    return await buildAndSwitch(deploy, parts, { ...unpacked, config });
  } finally {
    leaveRoom();
  }
}

async function buildAndSwitch(
  deploy: Deploy,
  parts: CarryOutParts,
  { bundleDir, noMain, config }: Awaited<ReturnType<typeof unpack>> & { readonly config: AppConfig },
): Promise<LiveApp> {
  const { buildId, app, log, signal } = deploy;
  // Whether it needs one depends on its configuration.
  if (noMain !== null && config.customRuntime === null) throw new BundleError([noMain]);
  const version = await build(deploy, parts, { bundleDir, config }, async ({ environment, built }) => {
    signal.throwIfAborted();
    await move(deploy, parts, "initializing");
    const made = built ? { ...config, built } : config;
    return await keep(deploy, parts, { bundleDir, config: made, environment });
  });
  let candidate: Candidate | null = null;
  let room: Room | null = null;
  try {
    candidate = parts.catalog.prepare(app, version);
    room = await parts.catalog.roomFor(candidate);
    if (room.taken !== null) log.say("check", room.taken === "gpus" ? SAME_GPUS : ONE_AFTER_THE_OTHER);
    await room.clear(signal);
    // Without a GPU that it could ever get, there is nothing to check.
    if (deploy.source.kind === "zip" && parts.catalog.gpuRoom.never(config) === null) {
      let result = await check(candidate, deploy);
      const inTheWay = result.kind === "failed" ? whatIsInTheWay(result) : null;
      if (result.kind === "failed" && inTheWay !== null && room.widen(result)) {
        log.say("check", inTheWay);
        await room.clear(signal);
        candidate = parts.catalog.prepare(app, version);
        result = await check(candidate, deploy);
      }
      requireReady(result);
    }
    signal.throwIfAborted();
    deploy.onSwitch();
    log.say("switch", `switching calls to version ${version.number}…`);
    const live = await parts.catalog.activate(candidate);
    log.say("switch", `version ${version.number} is live`);
    return live;
  } catch (error) {
    await candidate?.discard();
    await forgetVersion(parts, app, buildId);
    throw error;
  } finally {
    room?.leave();
  }
}

/** Removes a version that does not serve, its row and then its folder. */
export async function forgetVersion(
  { store, dataDir }: Pick<CarryOutParts, "store" | "dataDir">,
  app: App,
  versionId: string,
): Promise<void> {
  await store.versions.remove([versionId]);
  // One that serves is not removed: the switch may have been stored although it was reported as failed.
  if (await store.versions.find(versionId)) return;
  await removeTree(bundleOf(dataDir, app, versionId));
}

async function move({ buildId }: Deploy, { store, clock }: CarryOutParts, to: BuildStatus): Promise<void> {
  if (await store.builds.move({ id: buildId, to, now: clock.now() })) return;
  throw new DeployFailure("cancelled", "the build was cancelled elsewhere");
}

/** Extracts the bundle into the deploy's own folder, and removes the upload. */
async function unpack(deploy: Omit<Deploy, "app" | "registryAuth" | "onSwitch">, dataDir: string) {
  const { buildId, payload, source, log, signal } = deploy;
  const bundleDir = path.join(workDir(dataDir), buildId, "bundle");
  await mkdir(path.dirname(bundleDir), { recursive: true, mode: 0o700 });
  if (source.kind === "folder") {
    await copyFolder(source.folder, bundleDir, source.patterns);
    return { bundleDir, noMain: null };
  }
  const { files, bytes, noMain } = await extractBundle(source.file, bundleDir, {
    signal,
    // The error comes before a byte is written if the payload says that it is needed.
    needsMain: isTable(payload) && payload["runtime"] === "cortex",
  });
  await rm(source.file, { force: true });
  log.say("extract", `${files === 1 ? "1 file" : `${files} files`}, ${sizeText(bytes)}`);
  return { bundleDir, noMain };
}

type Asking = Pick<Deploy, "payload" | "log"> & { readonly app: Pick<App, "projectId" | "name"> };

/** Reads the app's configuration, with the payload's above the bundle's; throws what is wrong with it. */
function readConfig({ payload, log, app }: Asking, bundleDir: string, parts: CarryOutParts) {
  const { config, warnings, cog } = loadAppConfig(bundleDir, { payload, host: THIS_HOST });
  if (config.customRuntime && config.deployment.network === false && parts.walls !== null)
    throw new DeployFailure("build_failure", NO_PORT_WITHOUT_NETWORK);
  const gap = unkept(config.deployment.network, parts.network);
  const { gpuRoom } = parts.catalog;
  const told = [...warnings, ...gpuRoom.warnings(config), ...(gap ? [gap.message] : [])];
  for (const warning of told) log.say("extract", `warning: ${warning}`, "stderr");
  if (gap?.isRefused) throw new DeployFailure("build_failure", `${gap.message}; ${ACCEPT_UNENFORCED}`);
  const excess = gpuRoom.refusal(app, config);
  if (excess !== null) throw new DeployFailure("build_failure", excess);
  return { config, cog };
}

/** Makes a Cog model an app like any other, before anything looks for its `main.py`. */
async function writeMain(bundleDir: string, cog: CogModel): Promise<void> {
  await withHandle(await open(path.join(bundleDir, "main.py"), "wx", 0o644), async (file) => {
    await file.writeFile(cogMain(cog));
    await file.sync();
  });
  await syncFolder(bundleDir);
}

async function build(
  { buildId, app, payload, source, log, signal, registryAuth }: Deploy,
  parts: CarryOutParts,
  { bundleDir, config }: { readonly bundleDir: string; readonly config: AppConfig },
  keepVersion: (made: Pick<PreparedBuild, "environment" | "built">) => Promise<Version>,
): Promise<Version> {
  if (source.kind === "folder" && !hasToBeBuilt(config)) {
    const user = parts.storage.userOf(app.projectId);
    if (user !== null) await chownTree(bundleDir, user);
    return await keepVersion({ environment: null });
  }
  const say = (text: string, stream?: LogStream): void => log.say("build", text, stream);
  const { projectId } = app;
  const input = { ...buildHost(parts), buildId, projectId, bundleDir, config, say, signal, registryAuth };
  const checksSyntax = isTable(payload) && payload[SYNTAX_MEMBER] === false;
  return await prepareBuild({ ...input, checksSyntax }, keepVersion);
}

/** Whether more is asked for than the files and the service's own Python. */
function hasToBeBuilt({ deployment, dependencies, customRuntime }: AppConfig): boolean {
  const { pip, apt, conda, paths } = dependencies;
  const { pythonVersion, dockerBaseImageUrl, preBuildCommands, shellCommands } = deployment;
  return (
    customRuntime !== null ||
    pythonVersion !== null ||
    dockerBaseImageUrl !== null ||
    [...preBuildCommands, ...shellCommands].length > 0 ||
    [pip, apt, conda].some((packages) => Object.keys(packages).length > 0) ||
    Object.values(paths).some((file) => file !== null)
  );
}

/** Moves the bundle to its place and a blob, then stores the version's row: a row never lacks its files. */
async function keep(
  { buildId, app, source, log, signal }: Deploy,
  { store, files, dataDir, clock }: CarryOutParts,
  made: { readonly bundleDir: string; readonly environment: string | null; readonly config: AppConfig },
): Promise<Version> {
  const { environment, config } = made;
  const built = { bundle: made.bundleDir, environment };
  const blobs = await files?.keep(built, (text) => log.say("build", text), signal);
  const bundleDir = bundleOf(dataDir, app, buildId);
  await mkdir(path.dirname(bundleDir), { recursive: true, mode: 0o700 });
  await rename(made.bundleDir, bundleDir);
  await syncFolder(path.dirname(bundleDir));
  try {
    return await store.versions.insert({
      id: buildId,
      appNumber: app.number,
      config,
      bundle: artifactId(bundleDir, dataDir),
      environment: environment && artifactId(environment, dataDir),
      ...blobs,
      bundleHash: source.kind === "folder" ? source.hash : null,
      createdAt: clock.now(),
    });
  } catch (error) {
    // Its row may be stored although the answer was lost: then the row goes first, or the folder stays.
    if (isInDoubt(error)) await forgetVersion({ store, dataDir }, app, buildId);
    else await removeTree(bundleDir);
    throw error;
  }
}

/** Starts one replica; a start that took too long is thrown. */
async function check(candidate: Candidate, { log, signal }: Deploy): Promise<Check> {
  const startedAt = performance.now();
  log.say("check", "starting one replica to check that it works…");
  const result = await candidate.check(signal);
  const seconds = secondsText(performance.now() - startedAt);
  if (result.kind === "timeout") throw new DeployFailure("init_timeout", result.message);
  if (result.kind === "ready") {
    const names = result.functions.map(({ name }) => name).join(", ") || "it has no callable functions";
    if (result.setupMs !== null) log.say("check", `setup() took ${secondsText(result.setupMs)} s`);
    log.say("check", `ready after ${seconds} s: ${names}`);
  }
  if (result.kind === "serves") {
    log.say("check", `ready after ${seconds} s: the app's server takes calls`);
    if (result.isSingle) log.say("check", `warning: ${SINGLE}`, "stderr");
  }
  return result;
}

function secondsText(ms: number): string {
  return (ms / 1000).toFixed(2);
}

function requireReady(result: Check): void {
  if (result.kind !== "failed") return;
  const lines = result.traceback.trimEnd().split("\n");
  // The last line is the reason.
  if (lines.at(-1) !== result.message) lines.push(result.message);
  throw new DeployFailure("init_failure", result.message, lines);
}

/** What a deploy of a bundle would do. */
export type DryRun = {
  readonly plan: readonly string[];
  readonly warnings: readonly string[];
  /** Why it would fail; empty if nothing is known that would make it. */
  readonly problems: readonly string[];
};

export type DryRunRequest = {
  readonly id: string;
  readonly projectId: string;
  readonly name: string;
  readonly checksSyntax: boolean;
  readonly source: ZipSource;
  readonly signal: AbortSignal;
};

const WARNING = /^warning: /;

/** Checks a bundle as a deploy would before its build, and says what would follow. Nothing is left of it. */
export async function dryRun(request: DryRunRequest, parts: CarryOutParts): Promise<DryRun> {
  const { id: buildId, projectId, name, checksSyntax, source, signal } = request;
  const warnings: string[] = [];
  const say = (text: string, stream?: LogStream): void => {
    if (stream === "stderr" && WARNING.test(text)) warnings.push(text.replace(WARNING, ""));
  };
  const log = { say: (_: string, text: string, stream?: LogStream) => say(text, stream) };
  const payload = { name };
  try {
    const { bundleDir, noMain } = await unpack({ buildId, payload, source, log, signal }, parts.dataDir);
    const { config, cog } = readConfig({ payload, log, app: { projectId, name } }, bundleDir, parts);
    if (cog !== null) await writeMain(bundleDir, cog);
    if (noMain !== null && config.customRuntime === null) return { plan: [], warnings, problems: [noMain] };
    const input = { ...buildHost(parts), buildId, projectId, bundleDir, config, say, signal, checksSyntax };
    const { plan, problems } = await inspectBuild(input);
    return {
      plan: [...(cog ? [`take the folder for ${describeCog(cog, config)}`] : []), ...plan],
      problems,
      warnings,
    };
  } catch (error) {
    const failure = failureOf(error);
    if (!failure) throw error;
    return { plan: [], warnings, problems: failure.lines };
  } finally {
    await removeTree(path.join(workDir(parts.dataDir), buildId));
  }
}

type FailureStatus = Extract<BuildStatus, "build_failure" | "init_failure" | "init_timeout" | "cancelled">;

/** Longer lines are an app's data, not a reason. */
const MAX_MESSAGE_CHARS = 1_000;

/** How a deploy failed; the message is the line that its author needs. */
export class DeployFailure extends Error {
  readonly status: FailureStatus;
  /** All lines for the log, where they are more than the message. */
  readonly lines: readonly string[];

  constructor(status: FailureStatus, message: string, lines: readonly string[] = [message]) {
    super(message.slice(0, MAX_MESSAGE_CHARS));
    this.name = "DeployFailure";
    this.status = status;
    this.lines = lines;
  }
}

const DISK_FULL: ReadonlySet<unknown> = new Set(["ENOSPC", "EDQUOT"]);

/** What an error means for its deploy; null for an internal error. */
export function failureOf(error: unknown): DeployFailure | null {
  if (error instanceof DeployFailure) return error;
  if (error instanceof BuildError) return new DeployFailure("build_failure", error.message);
  if (error instanceof AppError) return new DeployFailure("build_failure", error.message);
  if (error instanceof ConfigError || error instanceof BundleError) {
    const [first = error.message, ...others] = error.problems;
    const message = others.length === 0 ? first : `${first} (and ${others.length} more)`;
    return new DeployFailure("build_failure", message, error.problems);
  }
  const { code } = error as NodeJS.ErrnoException;
  return DISK_FULL.has(code) ? new DeployFailure("build_failure", "the service's disk is full") : null;
}
