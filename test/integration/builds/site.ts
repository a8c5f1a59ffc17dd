import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, rmSync } from "node:fs";
import { mkdir, mkdtemp, readdir, writeFile } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished } from "vitest";
import { BuildError, type BuildInput } from "../../../src/apps/builds/site.ts";
import { prepareBuild } from "../../../src/apps/builds/build.ts";
import type { PreparedBuild } from "../../../src/apps/builds/commands.ts";
import { inspectBuild, type Inspection } from "../../../src/apps/builds/inspect.ts";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { findInterpreter, type Interpreter } from "../../../src/host/interpreter.ts";
import { StorageFolders } from "../../../src/host/storage/folders.ts";
import { type AppWalls, highestLevel, type WallLevel } from "../../../src/host/walls/walls.ts";
import { OPEN_NETWORK } from "../../support/walls/open-network.ts";
import { ISOLATION } from "../../support/test-settings.ts";
import { FIRST_USER, offered } from "../../support/walls/walled.ts";
import { hostReads } from "../../../src/host/walls/host-reads.ts";
import { assertNothingLeft } from "../../support/leak-check.ts";
import { type TestWheel, writeWheels } from "./wheels.ts";

/** The folders of the path. */
export const SEARCH_PATH = (process.env["PATH"] ?? "").split(":");

/** Whom projects may be. */
const USERS = { first: FIRST_USER, last: FIRST_USER + 9 };

/** Whose builds they are, unless a test says otherwise. */
const PROJECT = "p-builds00";

export type BundleFiles = Readonly<Record<string, string>>;

export type BuildOptions = {
  readonly toml?: string;
  /** Wheels to put into the bundle, by folder. */
  readonly wheels?: Readonly<Record<string, readonly TestWheel[]>>;
  readonly projectId?: string;
  /** What it lives behind, if that matters. */
  readonly level?: WallLevel;
  readonly python?: Interpreter;
  readonly host?: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal;
  readonly checksSyntax?: boolean;
  /** What builds its images, if it gets any. */
  readonly images?: BuildInput["images"];
  /** Stores what was made, as far as the build knows. */
  readonly keep?: (built: PreparedBuild) => Promise<void>;
  readonly onLine?: (text: string) => void;
};

/** A build that was asked for: its bundle, what it said, and how it ends. */
export type TestBuild = {
  readonly bundleDir: string;
  readonly lines: string[];
  readonly done: Promise<PreparedBuild>;
};

/** A folder for builds; when the test is over it is searched for processes and removed. */
export class BuildPlace {
  readonly directory: string;
  /** A host without uv, an index, a pip.conf or anything else of the machine that runs the tests. */
  readonly host: NodeJS.ProcessEnv;

  constructor(directory: string) {
    this.directory = directory;
    this.host = {
      PATH: SEARCH_PATH.filter((folder) => !existsSync(path.join(folder, "uv"))).join(":"),
      HOME: path.join(directory, "home"),
      PIP_CONFIG_FILE: "/dev/null",
      PIP_NO_INDEX: "1",
    };
  }

  get dataDir(): string {
    return path.join(this.directory, "data");
  }

  /** The host with an index. */
  withIndex(url: string): NodeJS.ProcessEnv {
    return { ...this.host, PIP_NO_INDEX: undefined, PIP_INDEX_URL: url };
  }

  /** Begins a build of a bundle with these files. */
  async begin(files: BundleFiles, options: BuildOptions = {}): Promise<TestBuild> {
    const { lines, ...input } = await this.#input(files, options);
    const done = prepareBuild(input, async (built) => {
      await options.keep?.(built);
      return built;
    });
    done.catch(() => {}); // Whoever awaits it learns of a failure.
    return { bundleDir: input.bundleDir, lines, done };
  }

  /** What a build of a bundle with these files would do. */
  async inspect(files: BundleFiles, options: BuildOptions = {}): Promise<Inspection & { lines: string[] }> {
    const { lines, ...input } = await this.#input(files, options);
    const { plan, problems } = await inspectBuild(input);
    return { plan, problems, lines };
  }

  async #input(files: BundleFiles, options: BuildOptions): Promise<BuildInput & { lines: string[] }> {
    const buildId = randomUUID();
    const bundleDir = path.join(this.directory, "work", buildId);
    for (const [name, text] of Object.entries({ "main.py": "", ...files })) {
      await mkdir(path.dirname(path.join(bundleDir, name)), { recursive: true });
      await writeFile(path.join(bundleDir, name), text);
    }
    for (const [folder, wheels] of Object.entries(options.wheels ?? {})) {
      await writeWheels(path.join(bundleDir, folder), wheels);
    }
    const { config } = readAppConfig({
      toml: { text: options.toml ?? "", fileName: "millrace.toml" },
      host: { cpuCount: availableParallelism() },
    });
    const lines: string[] = [];
    const walls = await wallsOf(this.dataDir, options.host ?? this.host, options.level);
    return {
      lines,
      buildId,
      projectId: options.projectId ?? PROJECT,
      bundleDir,
      config,
      dataDir: this.dataDir,
      python: options.python ?? (await servicePython()),
      walls,
      limits: null,
      images: options.images ?? null,
      storage: new StorageFolders(this.dataDir, walls?.level === "uid" ? USERS : null),
      say: (text: string) => {
        lines.push(text);
        options.onLine?.(text);
      },
      signal: options.signal ?? new AbortController().signal,
      host: options.host ?? this.host,
      checksSyntax: options.checksSyntax ?? false,
    };
  }

  /** A build to its end. */
  async build(files: BundleFiles, options?: BuildOptions): Promise<TestBuild & { result: PreparedBuild }> {
    const build = await this.begin(files, options);
    return { ...build, result: await build.done };
  }

  /** A build that fails, with the line its author gets. */
  async failure(files: BundleFiles, options?: BuildOptions): Promise<TestBuild & { message: string }> {
    const build = await this.begin(files, options);
    const error: unknown = await build.done.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BuildError);
    return { ...build, message: (error as BuildError).message };
  }

  /** The names of the environments on the disk. */
  async environments(): Promise<string[]> {
    const folder = path.join(this.dataDir, "environments");
    return existsSync(folder) ? await readdir(folder) : [];
  }
}

export async function buildPlace(): Promise<BuildPlace> {
  const directory = await mkdtemp(path.join(tmpdir(), "millrace-builds-"));
  onTestFinished(async () => {
    await assertNothingLeft(directory);
    rmSync(directory, { recursive: true, force: true });
  });
  const place = new BuildPlace(directory);
  await mkdir(path.join(directory, "home"));
  await mkdir(place.dataDir);
  return place;
}

/** What a service with this data directory would have its builds live behind. */
async function wallsOf(
  dataDir: string,
  host: NodeJS.ProcessEnv,
  wanted?: WallLevel,
): Promise<AppWalls | null> {
  const reads = hostReads(host, dataDir);
  const level = wanted ?? (ISOLATION === "auto" ? highestLevel(await offered()) : null);
  return level && { level, dataDir, reads, network: OPEN_NETWORK };
}

let asked: Promise<Interpreter> | null = null;

/** The Python the tests run with. */
export async function servicePython(): Promise<Interpreter> {
  asked ??= findInterpreter("python3");
  return await asked;
}

/** What a line of Python prints. */
export async function evaluate(python: string, code: string): Promise<string> {
  return (await promisify(execFile)(python, ["-I", "-c", code])).stdout.trim();
}
