import path from "node:path";
import { artifactId } from "../../../host/data-folders.ts";
import { realpath } from "../../../kit/files.ts";
import { Unpackable, packFolder } from "../../../kit/tar/pack-folder.ts";
import { type BuiltImage, pythonWish } from "../../../model/app-config.ts";
import { BuildSeatLost } from "../../../engines/build-seats.ts";
import type { BuildGround, BuildWish, Builder } from "../../../engines/build-seats.ts";
import type { ProgramEnd } from "../../../engines/programs/run-program.ts";
import { BuildError, type BuildSite, type RemoteBuilds, sizeText } from "../site.ts";
import {
  dropStandIn,
  knownStandIn,
  ownStandIn,
  readBlobRecord,
  sharedFolder,
  sharedStandIn,
  writeBlobRecord,
} from "../environments.ts";
import { remoteEnvironment } from "../build-environment.ts";
import { type BuildCommand, type BuildSteps, type CommandKind, runCommands } from "../commands.ts";
import { checkSyntax, compileBundle, requireMain } from "../compile-bundle.ts";
import { type Installer, pipInstaller, PROBE, readProbe } from "../installer.ts";
import { install, installerInput } from "../make-environment.ts";
import type { Requirements } from "../requirements.ts";
import { runStep } from "../run-step.ts";
import type { BuildTarget, PreparedBuild } from "../commands.ts";
import { checkRemote } from "./check-remote.ts";
import { buildRemoteImage } from "./build-image.ts";
import { bringBundleBack, storeFromSeat } from "./take-folders.ts";

/** How old a blob may be to be named: collectors leave it alone for a day, and a build takes three hours. */
const YOUNG_MS = 6 * 60 * 60 * 1000;

/** Builds in a remote seat, after the image that the app asks for. Packages go to a blob; the bundle comes back. */
export async function buildInSeat(
  site: BuildSite,
  remote: RemoteBuilds,
  carryOut: BuildSteps,
): Promise<PreparedBuild> {
  const { buildId, projectId, config } = site;
  const { images } = remote.seats;
  const { image, plan } = await checkRemote(images, site);
  const { containerRuntime } = config.deployment;
  const { memoryGb } = config.named;
  const wish = {
    buildId,
    projectId,
    names: { app: config.deployment.name ?? "app", version: "build" },
    bundle: await storeBundle(site, remote),
    python: pythonWish(config.deployment),
    memoryBytes: memoryGb === null ? null : Math.round(memoryGb * 1e9),
  };
  const making = { ...wish, python: null, image: null, containerRuntime: null, buildsImage: true } as const;
  const make = async (): Promise<BuiltImage | null> =>
    plan &&
    images &&
    (await inSeat(making, site, remote, (seat, ground) =>
      buildRemoteImage(plan, images, ground, { ...site, seat }),
    ));
  // A version that is built again has it.
  const built = config.built ?? (await make());
  const made = { python: null, ...(built && { built }) };
  // The app's own Dockerfile is the whole recipe.
  if (plan?.kind === "dockerfile") return { environment: null, ...made };
  const running = { ...wish, image: built?.reference ?? image, containerRuntime };
  return await inSeat(running, site, remote, async (seat, ground) => {
    const inside = { ...site, ...(images && { packagesBy: "apt" as const }), seat };
    const target = new RemoteTarget(ground, running.image !== null, inside, remote);
    const prepared = await carryOut(target, inside);
    const pinned = running.image === null ? null : asItRan(running.image, ground, site);
    return { ...prepared, ...made, ...(pinned && { built: pinned }) };
  });
}

async function storeBundle({ bundleDir, signal }: BuildSite, { blobs }: RemoteBuilds): Promise<string> {
  try {
    return (await blobs.put(packFolder(bundleDir), signal)).hash;
  } catch (error) {
    if (!(error instanceof Unpackable)) throw error;
    throw new BuildError(`the bundle could not be packed: ${error.message}`, { cause: error });
  }
}

/** Does something in a seat, which ends with it. */
async function inSeat<Made>(
  wish: BuildWish,
  { signal, say }: BuildSite,
  { seats }: RemoteBuilds,
  work: (seat: Builder, ground: BuildGround) => Promise<Made>,
): Promise<Made> {
  const seat = seats.open(wish, (why) => say(`waiting: ${why}`), signal);
  try {
    return await work(seat, await seat.ground);
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof BuildSeatLost ? new BuildError(error.message, { cause: error }) : error;
  } finally {
    seat.close();
  }
}

/** An image named by a tag becomes the one that has the tag now. Null if already pinned, or if the digest is unknown. */
function asItRan(image: string, ground: BuildGround, { say }: BuildSite): BuiltImage | null {
  if (image.includes("@sha256:")) return null;
  const reference = pinImage(image, ground.image);
  if (reference === null) say(NOT_PINNED, "stderr");
  else say(`the version runs ${reference}`);
  return reference === null ? null : { reference, start: null };
}

const NOT_PINNED =
  "warning: deployment.docker_base_image_url names no digest (…@sha256:…), and the cluster does not tell which image has the name " +
  "now. Packages are built for that one, and replicas run the one that has the name when they start";

/** The app's image with the digest of the one that a machine has run; null if the machine reports another repository. */
export function pinImage(image: string, ran: string | null): string | null {
  const [repository = "", digest] = ran?.split("@") ?? [];
  const name = image.replace(/:[^:/]*$/, "");
  // Machines report a name without a host in full.
  const names = [name, `docker.io/${name}`, `docker.io/library/${name}`];
  return digest !== undefined && names.includes(repository) ? `${name}@${digest}` : null;
}

/** The digest of an image that a machine has run; all of it if it has none. */
export function digestOf(ran: string): string {
  return ran.slice(ran.lastIndexOf("@") + 1);
}

type SeatSite = BuildSite & { readonly seat: Builder };

class RemoteTarget implements BuildTarget {
  readonly #ground: BuildGround;
  readonly #site: SeatSite;
  readonly #remote: RemoteBuilds;
  /** Its environment also has the packages of the app's own image. */
  readonly #seesImage: boolean;
  /** Where packages are installed there. */
  readonly #packages: string;
  #isOwn = false;
  #hasTools = false;
  /** The folder here that stands for packages that other versions share. */
  #shared: string | null = null;
  /** A blob with packages that the seat does not have yet. */
  #missing: string | null = null;

  constructor(ground: BuildGround, seesImage: boolean, site: SeatSite, remote: RemoteBuilds) {
    this.#ground = ground;
    this.#site = site;
    this.#remote = remote;
    this.#seesImage = seesImage;
    this.#packages = path.posix.join(ground.folder, "environment");
  }

  async checkSyntax(): Promise<void> {
    await checkSyntax(this.#ground.python.path, this.#site);
  }

  async makeOwn(): Promise<void> {
    this.#isOwn = true;
    await this.#create(true);
  }

  async runCommands(kind: CommandKind, commands: readonly BuildCommand[]): Promise<void> {
    if (commands.length === 0) return;
    if (this.#missing !== null) await this.#site.seat.bring(this.#missing);
    const environment = this.#isOwn || this.#shared !== null ? this.#packages : null;
    const own = this.#isOwn ? environment : null;
    const bin = path.posix.join(environment ?? this.#ground.folder, "bin");
    const env = await remoteEnvironment(this.#site.host, bin, own);
    await runCommands(kind, commands, { env, environment, own }, this.#site);
    // They may have written the list of packages, which is read here.
    if (kind === "pre_build_commands") await bringBundleBack(this.#site, this.#remote);
  }

  async install(requirements: Requirements): Promise<void> {
    if (this.#isOwn) await this.#install(requirements);
    else this.#shared = await this.#share(requirements);
  }

  async finish(needsMain: boolean): Promise<void> {
    await compileBundle(this.#ground.python.path, false, needsMain, this.#site);
    await bringBundleBack(this.#site, this.#remote);
    if (needsMain) requireMain(this.#site.bundleDir);
  }

  async keep(): Promise<PreparedBuild> {
    const environment = this.#isOwn
      ? await ownStandIn(this.#site, (folder) => this.#store(folder))
      : this.#shared;
    return { environment, python: null };
  }

  /** The environment of versions with the same packages: one that was built before, or a new one. */
  async #share(requirements: Requirements): Promise<string> {
    const { image, python, tag } = this.#ground;
    // The first word keeps its key apart from those of this machine.
    const runsOn = ["elsewhere", image === null ? python.path : digestOf(image), tag];
    const folder = await sharedFolder(requirements, runsOn, this.#site);
    await this.#recall(folder);
    let isNew = false;
    await sharedStandIn(folder, this.#site, async () => {
      isNew = true;
      await this.#create(false);
      await this.#install(requirements);
      await this.#store(folder);
    });
    if (!isNew) this.#missing = readBlobRecord(folder)?.environmentBlob ?? null;
    return folder;
  }

  /** Makes the folder's record true: it names a blob that is there, and will be until a version names it. */
  async #recall(folder: string): Promise<void> {
    const { blobs, known } = this.#remote;
    const record = readBlobRecord(folder);
    const named = await known(artifactId(folder, this.#site.dataDir));
    const isYoung = record !== null && Date.now() - record.putAt < YOUNG_MS;
    const blob = named ?? (isYoung ? record : null);
    const hasBlob = blob?.environmentBlob ? await blobs.has(blob.environmentBlob) : false;
    const isTrue = hasBlob && record?.environmentBlob === blob?.environmentBlob;
    if (record !== null && !isTrue)
      await dropStandIn(folder, () => readBlobRecord(folder)?.putAt === record.putAt);
    if (blob && hasBlob)
      await knownStandIn(folder, (to) => writeBlobRecord(to, { ...blob, putAt: record?.putAt ?? 0 }));
  }

  async #store(folder: string): Promise<void> {
    const { seat, signal, say } = this.#site;
    const { hash, bytes } = await storeFromSeat(seat, this.#remote, signal);
    say(`stored the environment (${sizeText(bytes)})`);
    await writeBlobRecord(folder, {
      environmentBlob: hash,
      environmentBytes: bytes,
      environmentTag: this.#ground.tag,
      putAt: Date.now(),
    });
  }

  /** Makes an empty environment there, with a pip if possible and wanted. */
  async #create(withPip: boolean): Promise<void> {
    const { python } = this.#ground;
    const make = async (options: readonly string[]): Promise<ProgramEnd> => {
      const seen = this.#seesImage ? ["--system-site-packages"] : [];
      const args = ["-I", "-m", "venv", "--clear", ...seen, ...options, this.#packages];
      return await runStep({ program: python.path, args, env: {}, onLine: () => {} }, this.#site);
    };
    this.#hasTools = withPip && (await make([])).code === 0;
    if (this.#hasTools) return;
    const end = await make(["--without-pip"]);
    if (end.code === 0) return;
    throw new BuildError(
      `Python ${python.version} of the image cannot create a virtual environment: ${end.lastWords || end.detail}`,
    );
  }

  async #install(requirements: Requirements): Promise<void> {
    const { bundleDir, host } = this.#site;
    const installer = await this.#findInstaller();
    const root = await realpath(bundleDir);
    const there = (fullPath: string): string =>
      path.posix.join(this.#ground.folder, "bundle", path.relative(root, fullPath));
    const aside = path.posix.join(this.#ground.folder, "aside");
    const { files, options } = installerInput(requirements, installer, aside, there);
    const folder = this.#packages;
    const env = await remoteEnvironment(host, path.posix.join(folder, "bin"), null);
    const hasTools = this.#hasTools;
    await install({ folder, requirements, installer, options, env, hasTools, files }, this.#site);
  }

  async #findInstaller(): Promise<Installer> {
    const { python } = this.#ground;
    let answer = "";
    const onLine = (text: string): void => void (answer = text);
    await runStep({ program: python.path, args: ["-I", "-c", PROBE], env: {}, onLine }, this.#site);
    const inside = path.posix.join(this.#packages, "bin", "python");
    try {
      const found = pipInstaller(readProbe(answer), python, inside);
      if (found) return found;
    } catch {
      // The image's Python has printed something else.
    }
    throw new BuildError(
      `Python ${python.version} of the image has neither pip nor ensurepip, which install packages`,
    );
  }
}
