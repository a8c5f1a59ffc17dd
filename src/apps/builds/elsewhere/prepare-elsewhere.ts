import path from "node:path";
import { artifactId } from "../../../host/data-folders.ts";
import { packFolder } from "../../../kit/tar/pack-folder.ts";
import { pythonWish } from "../../../model/app-config.ts";
import type { AppConfig, BuiltImage } from "../../../model/app-config.ts";
import { BuildSeatLost } from "../../../engines/build-seats.ts";
import type { BuildGround, BuildWish, Builder } from "../../../engines/build-seats.ts";
import { readBlobRecord, writeBlobRecord } from "../blob-record.ts";
import { environmentElsewhere } from "../build-environment.ts";
import { BuildError } from "../build-error.ts";
import { readCommands, runCommands } from "../commands.ts";
import type { CommandPlace } from "../commands.ts";
import { checkSyntax, compileBundle, requireMain } from "../compile-bundle.ts";
import { dropStandIn, knownStandIn, ownStandIn, sharedFolder, sharedStandIn } from "../environments.ts";
import { readRequirements } from "../requirements.ts";
import type { Requirements } from "../requirements.ts";
import type { BuildSite, Elsewhere } from "../site.ts";
import { sizeText } from "../../deploys/size-text.ts";
import { checkElsewhere } from "./check-elsewhere.ts";
import { imageElsewhere } from "./image-elsewhere.ts";
import { digestOf, pinImage } from "./pin-image.ts";
import { PackagesElsewhere } from "./packages-elsewhere.ts";
import { bringBundleBack, judged, storeFromSeat } from "./take-folders.ts";

/**
 * So long after it was put, a blob may be named: collectors leave it alone for a day, of which the store may have counted
 * half already, and a build takes three hours.
 */
const YOUNG_MS = 6 * 60 * 60 * 1000;

/**
 * Makes a bundle ready where it will run: the same steps as on this machine, in a seat of the place that its replicas will
 * have seats in. The bundle comes back changed; the packages go to a blob, and the environment's folder tells which.
 */
export async function prepareElsewhere(
  config: AppConfig,
  site: BuildSite,
  elsewhere: Elsewhere,
): Promise<PreparedElsewhere> {
  const { buildId, projectId, bundleDir, signal } = site;
  const { images } = elsewhere.seats;
  const { image, plan } = await checkElsewhere(config, images, site);
  const { hash: bundle } = await judged("the bundle could not be packed", () =>
    elsewhere.blobs.put(packFolder(bundleDir), signal),
  );
  const { containerRuntime } = config.deployment;
  const { memoryGb } = config.named;
  const memoryBytes = memoryGb === null ? null : Math.round(memoryGb * 1e9);
  const names = { app: config.deployment.name ?? "app", version: "build" };
  const wish = { buildId, projectId, names, bundle, python: pythonWish(config.deployment), memoryBytes };
  const making = { ...wish, python: null, image: null, containerRuntime: null, buildsImage: true } as const;
  const make = async (): Promise<BuiltImage | null> =>
    plan &&
    images &&
    (await inSeat(making, site, elsewhere, (on) => imageElsewhere(plan, config, images, on)));
  // A version that is built again has it.
  const built = config.built ?? (await make());
  const made = { python: null, ...(built && { built }) };
  // Its Dockerfile has decided on all else.
  if (plan?.kind === "dockerfile") return { environment: null, ...made };
  const running = { ...wish, image: built?.reference ?? image, containerRuntime };
  return await inSeat(running, site, elsewhere, async ({ seat, ground }) => {
    const isOwn = running.image !== null;
    const packagesBy = images === null ? {} : ({ packagesBy: "apt" } as const);
    const build = new ElsewhereBuild(config, ground, isOwn, { ...site, ...packagesBy, seat }, elsewhere);
    const environment = await build.run();
    const pinned = running.image === null ? null : asItRan(running.image, ground, site);
    return { environment, ...made, ...(pinned && { built: pinned }) };
  });
}

/** An image that was named by a tag: the version runs the one that has the tag now. Null where that is sure, or cannot be. */
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

type PreparedElsewhere = {
  readonly environment: string | null;
  readonly python: null;
  readonly built?: BuiltImage;
};

/** A seat that is there, and the build that has it. */
type InSeat = { readonly seat: Builder; readonly ground: BuildGround; readonly site: BuildSite };

/** Does something in a seat that nothing outlives. */
async function inSeat<Made>(
  wish: BuildWish,
  site: BuildSite,
  { seats }: Elsewhere,
  work: (on: InSeat) => Promise<Made>,
): Promise<Made> {
  const { signal, say } = site;
  const seat = seats.open(wish, (why) => say(`waiting: ${why}`), signal);
  try {
    return await work({ seat, ground: await seat.ground, site });
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof BuildSeatLost ? new BuildError(error.message, { cause: error }) : error;
  } finally {
    seat.close();
  }
}

class ElsewhereBuild {
  readonly #config: AppConfig;
  readonly #ground: BuildGround;
  readonly #seat: Builder;
  readonly #site: BuildSite;
  readonly #elsewhere: Elsewhere;
  readonly #packages: PackagesElsewhere;

  constructor(
    config: AppConfig,
    ground: BuildGround,
    hasOwnImage: boolean,
    site: BuildSite & { readonly seat: Builder },
    elsewhere: Elsewhere,
  ) {
    this.#config = config;
    this.#ground = ground;
    this.#seat = site.seat;
    this.#site = site;
    this.#elsewhere = elsewhere;
    this.#packages = new PackagesElsewhere(ground, hasOwnImage, site);
  }

  /** Gives the folder that stands for its packages; null when it has none. */
  async run(): Promise<string | null> {
    const site = this.#site;
    const { deployment, dependencies, customRuntime } = this.#config;
    await checkSyntax(this.#ground.python.path, site);
    const before = await readCommands("pre_build_commands", deployment, site.bundleDir);
    const after = await readCommands("shell_commands", deployment, site.bundleDir);
    // Commands that install something shall not change packages that other versions share.
    const isOwn = [...before, ...after].some(({ installs }) => installs);
    if (isOwn) await this.#packages.create(true);
    await runCommands("pre_build_commands", before, await this.#place(isOwn, isOwn), site);
    // They may have made what is read next.
    if (before.length > 0) await bringBundleBack(this.#seat, site, this.#elsewhere);
    const requirements = await readRequirements(dependencies, site);
    if (isOwn && requirements) await this.#packages.install(requirements);
    const shared = isOwn ? null : requirements && (await this.#shared(requirements, after.length > 0));
    const hasPackages = isOwn || shared !== null;
    await runCommands("shell_commands", after, await this.#place(hasPackages, isOwn), site);
    const needsMain = customRuntime === null;
    await compileBundle(this.#ground.python.path, false, needsMain, site);
    await bringBundleBack(this.#seat, site, this.#elsewhere);
    if (needsMain) requireMain(site.bundleDir);
    return isOwn ? await ownStandIn(site, (folder) => this.#store(folder)) : shared;
  }

  async #place(hasPackages: boolean, isOwn: boolean): Promise<CommandPlace> {
    const environment = hasPackages ? this.#packages.folder : null;
    const own = isOwn ? environment : null;
    const bin = path.posix.join(environment ?? this.#ground.folder, "bin");
    return { env: await environmentElsewhere(this.#site.host, bin, own), environment, own };
  }

  /** An environment that other versions have too: one that exists, or a new one. */
  async #shared(requirements: Requirements, isUsedHere: boolean): Promise<string> {
    const { image, python, tag } = this.#ground;
    const runsOn = ["elsewhere", image === null ? python.path : digestOf(image), tag];
    const folder = await sharedFolder(requirements, runsOn, this.#site);
    await this.#recall(folder);
    let isNew = false;
    await sharedStandIn(folder, this.#site, async () => {
      isNew = true;
      await this.#packages.create(false);
      await this.#packages.install(requirements);
      await this.#store(folder);
    });
    const blob = readBlobRecord(folder)?.environmentBlob ?? null;
    if (!isNew && isUsedHere && blob !== null) await this.#seat.bring(blob);
    return folder;
  }

  /** What the folder says is true: its blob is there, and will be until a version names it. */
  async #recall(folder: string): Promise<void> {
    const { blobs, known } = this.#elsewhere;
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
    const { signal, say } = this.#site;
    const { hash, bytes } = await storeFromSeat(this.#seat, this.#packages.folder, this.#elsewhere, signal);
    say(`stored the environment (${sizeText(bytes)})`);
    await writeBlobRecord(folder, {
      environmentBlob: hash,
      environmentBytes: bytes,
      environmentTag: this.#ground.tag,
      putAt: Date.now(),
    });
  }
}
