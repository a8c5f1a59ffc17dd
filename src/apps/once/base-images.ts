import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import path from "node:path";
import { Counts } from "../../kit/concurrency.ts";
import { mkdir, writeFile } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { type Clock, withTimeout } from "../../kit/clock.ts";
import type { App } from "../../model/app.ts";
import type { AppConfig } from "../../model/app-config.ts";
import type { LogStream } from "../../model/log-line.ts";
import { AppError } from "../../model/errors.ts";
import { BuildError, type BuildHost, buildHost } from "../builds/site.ts";
import { prepareBuild } from "../builds/build.ts";
import { environmentsDir } from "../builds/environments.ts";
import type { AppLogLine, Catalog } from "../catalog.ts";
import { BuildQueue } from "../deploys/build-queue.ts";
import { defaultConfig } from "./file-context.ts";

export type BaseImageParts = BuildHost & {
  readonly catalog: Pick<Catalog, "byNumber">;
  readonly clock: Clock;
  readonly onLog: (line: AppLogLine) => void;
};

type Packages = Readonly<Record<string, string>>;

/** What is installed for files that run. */
export type BaseImageWish = {
  readonly pip: Packages;
  readonly apt: Packages;
  readonly conda: Packages;
  readonly preBuildCommands: readonly string[];
  readonly shellCommands: readonly string[];
  readonly baseImage: string | null;
};

/** The digest is empty until it is ready. */
export type BaseImage = { readonly status: "ready" | "building"; readonly digest: string };

/** Clients ask 15 times, 2 s after each answer, and give up on one that takes longer than half a minute. */
const WAIT_MS = 20_000;
const MAX_BEGUN = 100;
/** Of one project, with those that wait. */
const MAX_OF_PROJECT = 10;
const SHARES = { total: 4, perProject: 2 };
/** From its turn on. */
const MAX_MAKE_MS = 60 * 60 * 1000;
/** The digest where nothing is to be installed. */
const NOTHING = "none";
/** After the project's id. */
const DIGEST = /^-(?:own-)?[0-9a-f][0-9a-f-]{7,127}$/;
const NO_PATHS = { pip: null, apt: null, conda: null };

/** Installed packages for file runs: the same environments as of apps, named by their hash. */
export class BaseImages {
  readonly #parts: BaseImageParts;
  /** By wish; one that has ended stays until a caller has its result. */
  readonly #begun = new Map<string, Promise<string>>();
  readonly #underWay = new Counts<string>();
  readonly #queue = new BuildQueue(SHARES);
  readonly #stopping = new AbortController();

  constructor(parts: BaseImageParts) {
    this.#parts = parts;
  }

  /** Has the packages installed, and waits a while for it. Throws `deploy_invalid` with what is wrong. */
  async make(app: App, wish: BaseImageWish): Promise<BaseImage> {
    const key = `${app.number} ${JSON.stringify(wish)}`;
    const making = this.#begun.get(key) ?? this.#begin(key, app, wish);
    let digest: string | null;
    try {
      digest = await withTimeout(WAIT_MS, making, this.#parts.clock);
    } catch (error) {
      this.#begun.delete(key);
      throw error instanceof BuildError ? new AppError("deploy_invalid", { message: error.message }) : error;
    }
    if (digest === null) return { status: "building", digest: "" };
    this.#begun.delete(key);
    return { status: "ready", digest };
  }

  /** The folder of that digest's packages, null for none. Throws `bad_request` when the project has none such. */
  async find({ projectId }: App, digest: string): Promise<string | null> {
    if (digest === NOTHING) return null;
    const environment = path.join(environmentsDir(this.#parts.dataDir), digest);
    const isOwn = digest.startsWith(projectId) && DIGEST.test(digest.slice(projectId.length));
    const isThere = isOwn && existsSync(path.join(environment, "bin", "python"));
    if (isThere) return environment;
    throw new AppError("bad_request", { message: "Unknown imageDigest; create the base image again." });
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.allSettled(this.#begun.values());
  }

  #begin(key: string, app: App, wish: BaseImageWish): Promise<string> {
    this.#stopping.signal.throwIfAborted();
    if (this.#begun.size >= MAX_BEGUN) this.#begun.delete(this.#begun.keys().next().value ?? "");
    const making = this.#makeInTurn(app, wish);
    // The next call learns of a failure.
    making.catch(() => undefined);
    this.#begun.set(key, making);
    return making;
  }

  /** Projects take turns; one that hangs gives its place back. */
  async #makeInTurn(app: App, wish: BaseImageWish): Promise<string> {
    const { signal } = this.#stopping;
    const count = this.#underWay.of(app.projectId);
    if (count >= MAX_OF_PROJECT) {
      const message = `${count} sets of packages are being installed for this project; try again shortly.`;
      throw new AppError("queue_full", { message });
    }
    const make = async (): Promise<string> => {
      const ending = new AbortController();
      const limit = this.#parts.clock.after(MAX_MAKE_MS, () =>
        ending.abort(new BuildError("installing the packages took longer than an hour")),
      );
      const making = this.#make(app, wish, AbortSignal.any([signal, ending.signal]));
      return await making.finally(() => limit.cancel());
    };
    return await this.#underWay.during(app.projectId, () => this.#queue.run(app, make, signal));
  }

  /** What is asked for, on the Python of the app: its files run on that. */
  #configOf({ number }: App, wish: BaseImageWish): AppConfig {
    const { pip, apt, conda, preBuildCommands, shellCommands, baseImage: dockerBaseImageUrl } = wish;
    const config = defaultConfig();
    const { pythonVersion, pythonVersionStrict } =
      this.#parts.catalog.byNumber(number)?.version.config.deployment ?? config.deployment;
    const python = { pythonVersion, pythonVersionStrict };
    return {
      ...config,
      deployment: { ...config.deployment, ...python, preBuildCommands, shellCommands, dockerBaseImageUrl },
      dependencies: { pip, apt, conda, paths: NO_PATHS },
    };
  }

  async #make(app: App, wish: BaseImageWish, signal: AbortSignal): Promise<string> {
    const { dataDir, onLog } = this.#parts;
    const buildId = randomUUID();
    const bundleDir = path.join(dataDir, "work", buildId);
    const where = { projectId: app.projectId, appName: app.name, appNumber: app.number };
    try {
      await mkdir(bundleDir, { recursive: true, mode: 0o700 });
      await writeFile(path.join(bundleDir, "main.py"), "");
      const input = {
        ...buildHost(this.#parts),
        // They run as processes of this host.
        images: null,
        remote: null,
        buildId,
        projectId: app.projectId,
        bundleDir,
        config: this.#configOf(app, wish),
        say: (text: string, stream: LogStream = "stdout") =>
          onLog({ ...where, replicaId: "base-image", runId: null, stream, text }),
        signal,
      };
      return await prepareBuild(input, ({ environment }) =>
        environment === null ? NOTHING : path.basename(environment),
      );
    } finally {
      await removeTree(bundleDir);
    }
  }
}
