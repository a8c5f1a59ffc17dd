import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  createReadStream,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { cp, rename } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";

/** An image that is made without Docker. Images are archives as `docker save` writes them. */
export type ImagePlan = {
  /** An archive of the image to begin from; null to begin from nothing. */
  readonly base: string | null;
  /** What is laid over it, each folder as the root of a file system. */
  readonly layers: readonly string[];
  readonly name: string;
  readonly out: string;
  /** An interpreter of the image's version, to compile bytecode with; absent for none. */
  readonly python?: string;
  /** What it starts with: an agent, unless it is another image. */
  readonly start?: ImageStart;
};

/** How an image starts, in the words of its configuration. */
export type ImageStart = {
  readonly WorkingDir: string;
  readonly Entrypoint: readonly string[] | null;
  readonly Cmd: readonly string[];
};

type Manifest = { Config: string; RepoTags: string[]; Layers: string[] }[];
type Config = {
  config?: Record<string, unknown>;
  rootfs: { type: string; diff_ids: string[] };
  history?: object[];
  [more: string]: unknown;
};

const REPOSITORY = path.join(import.meta.dirname, "..");
/** What the image holds of ours; the same as in packaging/worker/Dockerfile. */
const PACKAGES = [
  "millrace",
  "millrace_agent",
  "millrace_client",
  "millrace_cog",
  "millrace_walls",
  "millrace_worker",
];
/** Those of them without which nothing starts. */
const NEEDED = ["millrace_agent", "millrace_walls", "millrace_worker"];
const TARGET = "opt/millrace/python";
const USER = "10001:10001";
const AGENT: ImageStart = {
  WorkingDir: "/work",
  Entrypoint: null,
  Cmd: ["python3", "-I", `/${TARGET}/millrace_agent`],
};
/** The names of all files of an image. */
const MAX_LISTING_BYTES = 256 * 1024 * 1024;
const REPRODUCIBLE = ["--numeric-owner", "--owner=0", "--group=0", "--mtime=@0", "--sort=name"];
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/**
 * Makes an image with one more layer: the agent and the harness. What is below it has to hold a Python; throws if that
 * lacks a module which they import.
 */
export async function makeWorkerImage(plan: ImagePlan): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-worker-"));
  try {
    const own = await ownRoot(folder);
    if (plan.python !== undefined) compileBytecode(plan.python, own, TARGET);
    await makeImage({ ...plan, layers: [...plan.layers, own] }, neededModules(path.join(own, TARGET)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Makes an image from what is in the layers. Its Python, if it has one, must have those modules. */
export async function makeImage(
  { base, layers: roots, name, out, start = AGENT }: ImagePlan,
  needed: readonly string[] = [],
): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-image-"));
  try {
    const { config, layers } = base === null ? blank() : unpack(base, folder);
    for (const root of roots) {
      const { diffId, layer } = await addLayer(folder, root);
      layers.push(layer);
      config.rootfs.diff_ids.push(diffId);
      config.history = [...(config.history ?? []), { created_by: "millrace worker-image" }];
    }
    config.config = {
      Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
      ...config.config,
      User: USER,
      ...start,
    };
    const missing = missingModules(folder, layers, needed);
    if (missing.length > 0)
      throw new Error(
        `${name}: its Python lacks ${missing.join(", ")}, which the agent imports: begin from an image with the whole standard library`,
      );
    const text = JSON.stringify(config);
    const configName = `${createHash("sha256").update(text).digest("hex")}.json`;
    writeFileSync(path.join(folder, configName), text);
    const manifest: Manifest = [{ Config: configName, RepoTags: [name], Layers: layers }];
    writeFileSync(path.join(folder, "manifest.json"), JSON.stringify(manifest));
    // First the short ones, which tell what is in the others.
    const files = ["manifest.json", configName, ...new Set(layers)];
    execFileSync("tar", ["-C", folder, ...REPRODUCIBLE, "-cf", path.resolve(out), ...files]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Compiles what is in a folder below a root, for good: the file system of a seat is read-only, and each start would. */
export function compileBytecode(python: string, root: string, folder: string): void {
  const args = ["-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"];
  execFileSync(python, [...args, "-s", root, "-p", "/", path.join(root, folder)]);
}

/** Modules of the standard library that have no file of Python: some or all Pythons have them built in. */
const BUILT_IN = new Set([
  "atexit",
  "errno",
  "fcntl",
  "gc",
  "itertools",
  "resource",
  "select",
  "sys",
  "time",
  "zlib",
]);
const IMPORT = /^\s*(?:import ([A-Za-z_]\w*)|from ([A-Za-z_]\w*)[.\w]* import )/gm;

/** What our own packages in a folder import of the standard library. */
export function neededModules(folder: string): string[] {
  const names = new Set<string>();
  for (const name of NEEDED)
    for (const file of readdirSync(path.join(folder, name)).filter((each) => each.endsWith(".py")))
      for (const [, plain, from] of readFileSync(path.join(folder, name, file), "utf8").matchAll(IMPORT))
        names.add(plain ?? from ?? "");
  for (const name of [...PACKAGES, ...BUILT_IN]) names.delete(name);
  return [...names].toSorted();
}

/** Which of those modules no Python of the layers has. Without a Python whose files can be seen, nothing is known. */
function missingModules(folder: string, layers: readonly string[], needed: readonly string[]): string[] {
  if (needed.length === 0) return [];
  const found = new Set<string>();
  for (const layer of new Set(layers)) {
    const options = { encoding: "utf8", maxBuffer: MAX_LISTING_BYTES } as const;
    const listed = execFileSync("tar", ["-tf", path.join(folder, layer)], options);
    for (const [, name = ""] of listed.matchAll(/\/python3\.\d+\/(\w+)(?:\.py|\/__init__\.py)$/gm))
      found.add(name);
  }
  return found.has("os") ? needed.filter((name) => !found.has(name)) : [];
}

function blank(): { config: Config; layers: string[] } {
  const architecture = ARCHITECTURES[process.arch] ?? process.arch;
  return { config: { architecture, os: "linux", rootfs: { type: "layers", diff_ids: [] } }, layers: [] };
}

function unpack(base: string, folder: string): { config: Config; layers: string[] } {
  execFileSync("tar", ["-C", folder, "-xf", base]);
  const [image] = JSON.parse(readFileSync(path.join(folder, "manifest.json"), "utf8")) as Manifest;
  if (!image) throw new Error(`${base} holds no image`);
  const config = JSON.parse(readFileSync(path.join(folder, image.Config), "utf8")) as Config;
  return { config, layers: [...image.Layers] };
}

/** A folder with our own files where the image has them. */
async function ownRoot(folder: string): Promise<string> {
  const root = path.join(folder, "own-root");
  for (const name of PACKAGES) {
    await cp(path.join(REPOSITORY, "python", name), path.join(root, TARGET, name), {
      recursive: true,
      filter: (source) => !source.includes("__pycache__"),
    });
  }
  execFileSync("chmod", ["-R", "u=rwX,go=rX", root]);
  return root;
}

/** Packs a folder as a layer, which is named by what is in it. */
async function addLayer(folder: string, root: string): Promise<{ diffId: string; layer: string }> {
  const packed = path.join(folder, "layer.part");
  execFileSync("tar", ["-C", root, ...REPRODUCIBLE, "-cf", packed, "."]);
  const hash = createHash("sha256");
  for await (const piece of createReadStream(packed)) hash.update(piece as Buffer);
  const digest = hash.digest("hex");
  mkdirSync(path.join(folder, digest), { recursive: true });
  const layer = `${digest}/layer.tar`;
  await rename(packed, path.join(folder, layer));
  return { diffId: `sha256:${digest}`, layer };
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      base: { type: "string" },
      layer: { type: "string", multiple: true, default: [] },
      name: { type: "string" },
      out: { type: "string" },
      python: { type: "string" },
    },
  });
  const { base = null, layer, name, out, python } = values;
  if (!name || !out || (base === null && layer.length === 0)) {
    process.stderr.write(
      "usage: worker-image.ts [--base IMAGE.tar] [--layer FOLDER]… [--python PYTHON] --name NAME:TAG --out OUT.tar\n",
    );
    process.exitCode = 2;
  } else await makeWorkerImage({ base, layers: layer, name, out, ...(python !== undefined && { python }) });
}
