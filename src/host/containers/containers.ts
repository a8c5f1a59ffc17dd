import path from "node:path";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Settings } from "../../config/setting-keys.ts";
import type { Log } from "../../kit/log.ts";
import { mkdir, readdir, readFile, writeFile } from "../../kit/files.ts";
import { makeRuntimeDir } from "../../kit/runtime-dir.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { type ContainerTool, findContainerTool, type FoundTool, toolEnvironment } from "./container-tool.ts";

type ToolEnd = { readonly code: number; readonly stdout: string; readonly stderr: string };

/** A command that takes longer hangs. */
const COMMAND_MS = 120_000;
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;
const MAX_OPEN_FILES = 65_536;
const MAX_USER_PROCESSES = 32_768;

type ContainersParts = Pick<Settings, "containerEngine" | "dataDir">;

/** The images and containers of a service. With podman each project has a store of its own, so none can name others' images. */
export class Containers {
  /** Resolves when leftovers of an earlier service are gone. */
  cleared = Promise.resolve();
  /** Marks objects of this service in the tool. */
  readonly label: string;
  readonly env: Readonly<Record<string, string>>;
  readonly #parts: ContainersParts;
  readonly #host: NodeJS.ProcessEnv;
  readonly #name: string;
  #found: Promise<FoundTool> | null = null;
  /** The projects whose images or containers this process has used. */
  readonly #used = new Map<string, ContainerTool>();
  /** The first arguments of their commands. */
  readonly #stores = new Map<string, Promise<readonly string[]>>();
  readonly #networks = new Map<string, Promise<string>>();
  readonly #builds = new Map<string, Builds>();

  /** `host` is the environment of the service's process. */
  constructor(parts: ContainersParts, host: NodeJS.ProcessEnv = process.env) {
    this.#parts = parts;
    this.#host = host;
    this.env = toolEnvironment(host);
    const hash = createHash("sha256").update(path.resolve(parts.dataDir)).digest("hex");
    this.#name = `millrace-${hash.slice(0, 12)}`;
    this.label = `millrace=${this.#name}`;
  }

  /** Removes leftovers of a killed service. Containers wait for that; apps without images do not. */
  static open(parts: ContainersParts, log: Log): Containers {
    const containers = new Containers(parts);
    containers.cleared = containers
      .clearLeftovers()
      .catch((error: unknown) => log.error({ err: error }, "containers were left behind"));
    return containers;
  }

  /** The tool, or why there is none. Looked for on first use, because it takes a moment to answer. */
  async find(): Promise<FoundTool> {
    this.#found ??= findContainerTool(this.#parts.containerEngine, this.#host);
    const found = await this.#found;
    // It may be installed before the next deploy.
    if (!("tool" in found)) this.#found = null;
    return found;
  }

  /** The first arguments of every command about a project. */
  async before(tool: ContainerTool, projectId: string): Promise<readonly string[]> {
    this.#used.set(projectId, tool);
    return await madeOnce(this.#stores, projectId, () => this.#makeStore(tool, projectId));
  }

  folderOf(projectId: string): string {
    return path.join(this.#parts.dataDir, IMAGES, projectId);
  }

  async run(
    tool: ContainerTool,
    projectId: string,
    args: readonly string[],
    variables: Readonly<Record<string, string>> = {},
  ): Promise<ToolEnd> {
    const before = await this.before(tool, projectId);
    const env = { ...variables, ...this.env };
    // A stopped process ignores gentler signals.
    const limits = { timeout: COMMAND_MS, killSignal: "SIGKILL", maxBuffer: MAX_OUTPUT_BYTES } as const;
    return await new Promise((resolve) => {
      execFile(tool.program, [...before, ...args], { env, ...limits }, (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === "number" ? error.code : 1;
        resolve({ code, stdout, stderr });
      });
    });
  }

  /** Whether an image exists; true if unknown. */
  async hasImage({ id, projectId }: ImageRecord): Promise<boolean> {
    const found = await this.find();
    return !("tool" in found) || (await this.run(found.tool, projectId, ["image", "inspect", id])).code === 0;
  }

  /** The name for a container, or a project's network. */
  nameOf(id: string): string {
    return `${this.#name}-${id}`;
  }

  /** A private network of a project's containers, made on first use. */
  async networkOf(tool: ContainerTool, projectId: string): Promise<string> {
    return await madeOnce(this.#networks, projectId, () => this.#makeNetwork(tool, projectId));
  }

  /** Removes leftovers of a killed service: containers, networks, builds, and files with variables. */
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

  /** Runs a build in a project's store. Cleans up after a failure once no build runs: leftovers look like running containers. */
  async whileBuilding<T>(tool: ContainerTool, projectId: string, build: () => Promise<T>): Promise<T> {
    const idle = { count: 0, hasFailed: false, clearing: Promise.resolve() };
    const builds = this.#builds.get(projectId) ?? idle;
    this.#builds.set(projectId, builds);
    builds.count += 1;
    await this.cleared;
    await builds.clearing;
    let isDone = false;
    try {
      const built = await build();
      isDone = true;
      return built;
    } finally {
      builds.count -= 1;
      builds.hasFailed ||= !isDone;
      if (builds.count === 0 && builds.hasFailed) {
        builds.hasFailed = false;
        builds.clearing = this.#clearBuilds(tool, projectId);
      }
      await builds.clearing;
    }
  }

  /** Removes networks and podman's mounts, when no container runs any more. */
  async close(): Promise<void> {
    await this.cleared;
    for (const [projectId, tool] of this.#used) {
      if (this.#networks.has(projectId))
        await this.run(tool, projectId, ["network", "rm", this.nameOf(projectId)]);
      // A store stays mounted after a failed command; a successful one unmounts it.
      if (tool.kind === "podman") await this.run(tool, projectId, ["ps", "--quiet"]);
    }
  }

  runFolder(projectId: string): string {
    return path.join(this.folderOf(projectId), "files");
  }

  /** Removes the images of environments that no longer exist. */
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

  /** Removes the containers of build steps, which a killed podman leaves behind and mounted. */
  async #clearBuilds(tool: ContainerTool, projectId: string): Promise<void> {
    if (tool.kind === "docker") return;
    const list = ["ps", "-a", "-q", "--external", "--filter", `name=${BUILDING}`];
    await this.#removeAll(tool, projectId, list, ["rm", "-f"]);
  }

  async #makeNetwork(tool: ContainerTool, projectId: string): Promise<string> {
    const name = this.nameOf(projectId);
    if ((await this.run(tool, projectId, ["network", "inspect", name])).code === 0) return name;
    // Docker isolates all networks; podman only on request.
    const apart = tool.kind === "podman" ? ["--opt", "isolate=true", "--disable-dns"] : [];
    const create = ["network", "create", "--label", this.label, ...apart, name];
    const made = await this.run(tool, projectId, create);
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
    // A moved store is unusable. Its images can be built again.
    if ((await readFile(marker, "utf8").catch(() => store)) !== store) await removeTree(store);
    await writeFile(marker, store);
    makeRuntimeDir(runRoot);
    const place = ["--root", store, "--runroot", runRoot, "--storage-driver", known.driver];
    // Only this driver can read a second store.
    if (known.driver !== "overlay") return place;
    return [...place, "--storage-opt", `additionalimagestore=${known.folder}`];
  }

  /** Where podman keeps what does not outlive the machine's next start; it takes no path longer than 50 characters. */
  #runRoot(folder: string): string {
    const base = process.getuid?.() === 0 ? "/run" : (this.#host["XDG_RUNTIME_DIR"] ?? "/tmp");
    const name = createHash("sha256").update(folder).digest("hex").slice(0, 12);
    return path.join(base, `millrace-${name}`);
  }

  async #projects(): Promise<string[]> {
    return await readdir(path.join(this.#parts.dataDir, IMAGES)).catch(() => []);
  }
}

/** Makes it on first use, and again after a failure. */
async function madeOnce<T>(known: Map<string, Promise<T>>, key: string, make: () => Promise<T>): Promise<T> {
  const making = known.get(key) ?? make();
  known.set(key, making);
  making.catch(() => known.delete(key));
  return await making;
}

/** The builds in a store: how many run, whether one has failed, and the cleanup after them. */
type Builds = { count: number; hasFailed: boolean; clearing: Promise<void> };

/** Podman's names for containers of builds; ours end with an id. */
const BUILDING = "-working-container(-[0-9]+)?$";

const IMAGES = "images";

/** Labels of an image: its project, and the folder that represents it. */
export const PROJECT_LABEL = "millrace.project";
export const ENVIRONMENT_LABEL = "millrace.environment";

/** Lowers the tool's default limits to what the host allows. */
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

/** The file in an environment's folder that names its image. */
export const IMAGE_RECORD = "image.json";

type ImageRecord = {
  readonly id: string;
  readonly projectId: string;
  /** The command of its Python, for an app that offers functions; null for a server. */
  readonly python: string | null;
};

export async function writeImageRecord(environment: string, record: ImageRecord): Promise<void> {
  await writeFile(path.join(environment, IMAGE_RECORD), JSON.stringify(record));
}

/** The image of an environment; null for a folder of packages. */
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
