import path from "node:path";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { userInfo } from "node:os";
import type { Settings } from "../../config/setting-keys.ts";
import type { Log } from "../../kit/log.ts";
import { mkdir, readdir, readFile, writeFile } from "../../kit/files.ts";
import { makeRuntimeDir } from "../../kit/runtime-dir.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { findContainerTool, toolEnvironment } from "./container-tool.ts";
import type { ContainerTool, FoundTool } from "./container-tool.ts";

/** How a command of the tool ended. */
type ToolEnd = { readonly code: number; readonly stdout: string; readonly stderr: string };

/** For what answers at once; what takes longer has hung. */
const COMMAND_MS = 120_000;
/** More than that is no answer. */
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;
const MAX_OPEN_FILES = 65_536;
const MAX_USER_PROCESSES = 32_768;

type ContainersParts = {
  readonly containerEngine: Settings["containerEngine"];
  readonly dataDir: string;
};

/**
 * The images and containers of a service. With podman each project has a store of its own in the data directory: no
 * Dockerfile can name another project's image, and nothing of it lies among those of whoever runs the host.
 */
export class Containers {
  readonly #parts: ContainersParts;
  readonly #host: NodeJS.ProcessEnv;
  #found: Promise<FoundTool> | null = null;
  #cleared = Promise.resolve();
  /** The projects whose images or containers this process has dealt with. */
  readonly #used = new Map<string, ContainerTool>();
  /** What stands before their commands. */
  readonly #stores = new Map<string, Promise<readonly string[]>>();
  readonly #networks = new Map<string, Promise<string>>();
  /** Those that use the store of a project. */
  readonly #builds = new Map<string, Builds>();

  /** `host` is the environment of the service's process. */
  constructor(parts: ContainersParts, host: NodeJS.ProcessEnv = process.env) {
    this.#parts = parts;
    this.#host = host;
  }

  /** Removes what a service that was killed has left. Nothing begins before that; apps without images do not wait. */
  static open(parts: ContainersParts, log: Log): Containers {
    const containers = new Containers(parts);
    containers.#cleared = containers
      .clearLeftovers()
      .catch((error: unknown) => log.error({ err: error }, "containers were left behind"));
    return containers;
  }

  /** Resolves when what an earlier service has left is gone: from then on containers and builds are this one's own. */
  get cleared(): Promise<void> {
    return this.#cleared;
  }

  /** Marks what belongs to this service, among all that the tool knows. */
  get label(): string {
    return `millrace=${this.#name}`;
  }

  /** The tool, or why there is none. Looked for when it is first needed: it takes a moment to answer. */
  async find(): Promise<FoundTool> {
    this.#found ??= findContainerTool(this.#parts.containerEngine, this.#host);
    const found = await this.#found;
    // It may be installed before the next deploy.
    if (!("tool" in found)) this.#found = null;
    return found;
  }

  /** The environment of the tool itself. */
  get env(): Record<string, string> {
    return toolEnvironment(this.#host);
  }

  /** What stands before every command about a project's images and containers. */
  async before(tool: ContainerTool, projectId: string): Promise<readonly string[]> {
    this.#used.set(projectId, tool);
    const making = this.#stores.get(projectId) ?? this.#makeStore(tool, projectId);
    this.#stores.set(projectId, making);
    making.catch(() => this.#stores.delete(projectId));
    return await making;
  }

  /** Where what a project's images need on this machine is kept. */
  folderOf(projectId: string): string {
    return path.join(this.#parts.dataDir, IMAGES, projectId);
  }

  /** Runs a command to its end; `variables` are in its environment besides. */
  async run(
    tool: ContainerTool,
    projectId: string,
    args: readonly string[],
    variables: Readonly<Record<string, string>> = {},
  ): Promise<ToolEnd> {
    const before = await this.before(tool, projectId);
    const env = { ...variables, ...this.env };
    // One that was stopped does not hear anything gentler.
    const limits = { timeout: COMMAND_MS, killSignal: "SIGKILL", maxBuffer: MAX_OUTPUT_BYTES } as const;
    return await new Promise((resolve) => {
      execFile(tool.program, [...before, ...args], { env, ...limits }, (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === "number" ? error.code : 1;
        resolve({ code, stdout, stderr });
      });
    });
  }

  /** Whether an image is there; where nobody can tell, it is. */
  async hasImage({ id, projectId }: ImageRecord): Promise<boolean> {
    const found = await this.find();
    return !("tool" in found) || (await this.run(found.tool, projectId, ["image", "inspect", id])).code === 0;
  }

  /** The name of a container, or of a project's network, that is to be. */
  nameOf(id: string): string {
    return `${this.#name}-${id}`;
  }

  /** A network that a project's containers share with nobody; made when it is first needed. */
  async networkOf(tool: ContainerTool, projectId: string): Promise<string> {
    const making = this.#networks.get(projectId) ?? this.#makeNetwork(tool, projectId);
    this.#networks.set(projectId, making);
    making.catch(() => this.#networks.delete(projectId));
    return await making;
  }

  /** Removes what a service that was killed has left: containers, networks, builds, and files with variables. */
  async clearLeftovers(): Promise<void> {
    const projects = await this.#projects();
    if (projects.length === 0) return;
    const found = await this.find();
    if (!("tool" in found)) return;
    const { tool } = found;
    const ours = ["--filter", `label=${this.label}`];
    for (const projectId of tool.kind === "docker" ? projects.slice(0, 1) : projects) {
      await this.#removeAll(tool, projectId, ["ps", "-a", "-q", ...ours], ["rm", "-f", "-v"]);
      await this.#removeAll(tool, projectId, ["network", "ls", "-q", ...ours], ["network", "rm"]);
      await this.#clearBuilds(tool, projectId);
    }
    for (const projectId of projects) await removeTree(this.runFolder(projectId));
  }

  /** Does what builds in a project's store; where that throws, nothing of it is left. */
  async whileBuilding<T>(tool: ContainerTool, projectId: string, build: () => Promise<T>): Promise<T> {
    const { count, hasFailed, clearing } = this.#builds.get(projectId) ?? NO_BUILDS;
    this.#builds.set(projectId, { count: count + 1, hasFailed, clearing });
    await this.#cleared;
    await clearing;
    let isDone = false;
    try {
      const built = await build();
      isDone = true;
      return built;
    } finally {
      await this.#endBuild(tool, projectId, isDone);
    }
  }

  /** What one build has left looks like what another one works in: it goes once there is none. */
  async #endBuild(tool: ContainerTool, projectId: string, isDone: boolean): Promise<void> {
    const builds = this.#builds.get(projectId) ?? NO_BUILDS;
    const count = builds.count - 1;
    const hasFailed = builds.hasFailed || !isDone;
    const isLast = count === 0 && hasFailed;
    const clearing = isLast ? this.#clearBuilds(tool, projectId) : builds.clearing;
    this.#builds.set(projectId, { count, hasFailed: hasFailed && !isLast, clearing });
    await clearing;
  }

  /** Lets go of all that is left once no container runs: networks, and what podman has mounted. */
  async close(): Promise<void> {
    await this.#cleared;
    for (const [projectId, tool] of this.#used) {
      if (this.#networks.has(projectId))
        await this.run(tool, projectId, ["network", "rm", this.nameOf(projectId)]);
      // A store stays mounted after a command that has failed, and not after one that has not.
      if (tool.kind === "podman") await this.run(tool, projectId, ["ps", "--quiet"]);
    }
  }

  /** Where files lie that a running container needs. */
  runFolder(projectId: string): string {
    return path.join(this.folderOf(projectId), "files");
  }

  /** Removes the images of environments that are gone. `isThere` tells of a folder's name whether it is. */
  async sweepImages(isThere: (environment: string) => boolean): Promise<void> {
    for (const projectId of await this.#projects()) {
      const found = await this.find();
      if (!("tool" in found)) return;
      await this.#sweep(found.tool, projectId, isThere);
    }
  }

  async #sweep(tool: ContainerTool, projectId: string, isThere: (name: string) => boolean): Promise<void> {
    const filters = ["--filter", `label=${this.label}`, "--filter", `label=${PROJECT_LABEL}=${projectId}`];
    const { stdout } = await this.run(tool, projectId, ["images", "-q", "--no-trunc", ...filters]);
    for (const id of new Set(stdout.split("\n").filter((line) => line !== ""))) {
      const format = `{{index .Config.Labels "${ENVIRONMENT_LABEL}"}}`;
      const asked = await this.run(tool, projectId, ["image", "inspect", "--format", format, id]);
      const environment = asked.stdout.trim();
      if (asked.code === 0 && environment !== "" && !isThere(environment))
        await this.run(tool, projectId, ["rmi", "-f", id]);
    }
  }

  async #removeAll(
    tool: ContainerTool,
    projectId: string,
    list: readonly string[],
    removal: readonly string[],
  ): Promise<void> {
    const { stdout } = await this.run(tool, projectId, list);
    const names = stdout.split("\n").filter((name) => name !== "");
    if (names.length > 0) await this.run(tool, projectId, [...removal, ...names]);
  }

  /** Removes what builds run their steps in: podman leaves it behind, and mounted, when it is killed. */
  async #clearBuilds(tool: ContainerTool, projectId: string): Promise<void> {
    if (tool.kind === "docker") return;
    const list = ["ps", "-a", "-q", "--external", "--filter", `name=${BUILDING}`];
    await this.#removeAll(tool, projectId, list, ["rm", "-f"]);
  }

  async #makeNetwork(tool: ContainerTool, projectId: string): Promise<string> {
    const name = this.nameOf(projectId);
    if ((await this.run(tool, projectId, ["network", "inspect", name])).code === 0) return name;
    // With podman only those that say so are kept apart; with docker all are.
    const apart = tool.kind === "podman" ? ["--opt", "isolate=true", "--disable-dns"] : [];
    const made = await this.run(tool, projectId, [
      "network",
      "create",
      "--label",
      this.label,
      ...apart,
      name,
    ]);
    if (made.code !== 0) throw new Error(`${tool.kind} could not make a network: ${made.stderr.trim()}`);
    return name;
  }

  async #makeStore({ store: known }: ContainerTool, projectId: string): Promise<readonly string[]> {
    const folder = this.folderOf(projectId);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    if (known === null) return [];
    const store = path.join(folder, "store");
    const runRoot = this.#runRoot(folder);
    const marker = path.join(folder, "place");
    // It knows its own place, and is of no use in another. Whatever is in it can be built again.
    if ((await readFile(marker, "utf8").catch(() => store)) !== store) await removeTree(store);
    await writeFile(marker, store);
    makeRuntimeDir(runRoot);
    const place = ["--root", store, "--runroot", runRoot, "--storage-driver", known.driver];
    // No other driver can read a second store.
    if (known.driver !== "overlay") return place;
    return [...place, "--storage-opt", `additionalimagestore=${known.folder}`];
  }

  /** Where podman keeps what does not outlive the machine's next start; it takes no path longer than 50 characters. */
  #runRoot(folder: string): string {
    const base = userInfo().uid === 0 ? "/run" : (this.#host["XDG_RUNTIME_DIR"] ?? "/tmp");
    const name = createHash("sha256").update(folder).digest("hex").slice(0, 12);
    return path.join(base, `millrace-${name}`);
  }

  async #projects(): Promise<string[]> {
    return await readdir(path.join(this.#parts.dataDir, IMAGES)).catch(() => []);
  }

  get #name(): string {
    const hash = createHash("sha256").update(path.resolve(this.#parts.dataDir)).digest("hex");
    return `millrace-${hash.slice(0, 12)}`;
  }
}

/** Builds in one store: how many there are, whether one has failed, and what clears up after them. */
type Builds = { readonly count: number; readonly hasFailed: boolean; readonly clearing: Promise<void> };
const NO_BUILDS: Builds = { count: 0, hasFailed: false, clearing: Promise.resolve() };

/** What podman calls containers of builds; ours end with an id. */
const BUILDING = "-working-container(-[0-9]+)?$";

/** Below the data directory. */
const IMAGES = "images";

/** On an image: whose it is, and the folder that stands for it. */
export const PROJECT_LABEL = "millrace.project";
export const ENVIRONMENT_LABEL = "millrace.environment";

/** What the tool must ask for where the host gives less than it takes for granted. */
export function ulimits(): string[] {
  const limits = readFileSync("/proc/self/limits", "utf8");
  const hard = (name: string): number => {
    const value = new RegExp(`^${name} +\\S+ +(\\S+)`, "m").exec(limits)?.[1];
    return value === undefined || value === "unlimited" ? Infinity : Number(value);
  };
  const files = Math.min(MAX_OPEN_FILES, hard("Max open files"));
  const processes = Math.min(MAX_USER_PROCESSES, hard("Max processes"));
  return ["--ulimit", `nofile=${files}:${files}`, "--ulimit", `nproc=${processes}:${processes}`];
}

/** In an environment's folder, in place of its packages: those are in an image. */
export const IMAGE_RECORD = "image.json";

/** An image that a build has made. */
type ImageRecord = {
  /** As the tool knows it. */
  readonly id: string;
  readonly projectId: string;
  /** How its Python is called, for an app that offers functions; null for a server, which starts as it likes. */
  readonly python: string | null;
};

export async function writeImageRecord(environment: string, record: ImageRecord): Promise<void> {
  await writeFile(path.join(environment, IMAGE_RECORD), JSON.stringify(record));
}

/** The image that stands for an environment; null where it is a folder of packages. */
export function readImageRecord(environment: string | null): ImageRecord | null {
  if (environment === null) return null;
  try {
    // Only the service writes it.
    // oxlint-disable-next-line no-unsafe-type-assertion
    return JSON.parse(readFileSync(path.join(environment, IMAGE_RECORD), "utf8")) as ImageRecord;
  } catch {
    return null;
  }
}
