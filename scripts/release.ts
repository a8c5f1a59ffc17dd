import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { billOfMaterials, packagesBelow, type Places } from "./bill-of-materials.ts";

// Makes everything that a release publishes: `node scripts/release.ts [--commit COMMIT] [--out FOLDER]`.
// It needs git, GNU tar and the packages of `npm ci`, and no network. Equal commits make equal files.

const REPOSITORY = path.join(import.meta.dirname, "..");
const SUMS = "SHA256SUMS";

type Lock = { readonly packages: Places };
type Manifest = { readonly scripts?: unknown; readonly devDependencies?: unknown };

/** Where the files of a release are, and its commit. */
export type Release = { readonly folder: string; readonly commit: string; readonly files: readonly string[] };

/**
 * Makes the files of a release from a commit: the npm package, the wheel, the chart, the bill of materials and the
 * checksums of them. What is not committed has no part in it. The folder is emptied first.
 */
export function makeRelease(folder: string, named = "HEAD"): Release {
  const commit = git("rev-parse", "--verify", `${named}^{commit}`);
  const seconds = Number(process.env["SOURCE_DATE_EPOCH"] || git("log", "-1", "--format=%ct", commit));
  const stage = mkdtempSync(path.join(tmpdir(), "millrace-release-"));
  // Whatever the caller's own is, files have the same modes in the archives.
  const umask = process.umask(0o022);
  try {
    const archive = execFileSync("git", ["archive", commit], { cwd: REPOSITORY, maxBuffer: 2 ** 30 });
    execFileSync("tar", ["-x", "-C", stage], { input: archive });
    checkPackages(stage);
    symlinkSync(path.join(REPOSITORY, "node_modules"), path.join(stage, "node_modules"));
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const { version } = readJson(path.join(stage, "package.json")) as { version: string };
    const made = { stage, folder, version, seconds };
    writeFileSync(path.join(folder, `millrace-${version}.cdx.json`), billOfMaterials(stage, seconds));
    const env = { ...process.env, SOURCE_DATE_EPOCH: String(seconds) };
    execFileSync("npm", ["run", "--silent", "build"], { cwd: stage, env });
    execFileSync(process.execPath, [path.join(stage, "scripts", "build-python.ts"), folder]);
    packChart(made);
    // The last: it replaces what the others are made with.
    bundleDependencies(stage);
    execFileSync("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder], {
      cwd: stage,
      env,
    });
    const files = readdirSync(folder).toSorted();
    writeFileSync(path.join(folder, SUMS), files.map((file) => sumOf(folder, file)).join(""));
    return { folder, commit, files: [...files, SUMS] };
  } finally {
    process.umask(umask);
    rmSync(stage, { recursive: true, force: true });
  }
}

type Made = {
  readonly stage: string;
  readonly folder: string;
  readonly version: string;
  readonly seconds: number;
};

/** Throws if what is installed here, with which the release is built, is not what the commit's lockfile says. */
function checkPackages(stage: string): void {
  const installed = readJson(path.join(REPOSITORY, "node_modules", ".package-lock.json")) as Lock;
  const others = packagesThatDiffer(readLock(stage), installed);
  if (others.length > 0)
    throw new Error(
      `node_modules is not what the lockfile says (${others.slice(0, 3).join(", ")}): run npm ci`,
    );
}

/** The names of packages of a lockfile that are not installed in that version. Those for other machines need not be. */
export function packagesThatDiffer(locked: Lock, installed: Lock): string[] {
  return Object.entries(locked.packages)
    .filter(([name, { version, optional }]) => {
      const own = installed.packages[name];
      return name !== "" && own?.version !== version && !(optional && !own);
    })
    .map(([name]) => name.replace(/^.*node_modules\//, ""));
}

/**
 * Puts what the service needs into its package, in the versions of the lockfile: npm heeds no lockfile in a package that
 * is a file, and would fetch newer versions, with which nothing was tested. Node is too large, and is fetched.
 */
function bundleDependencies(stage: string): void {
  const { packages } = readLock(stage);
  const needed = Object.keys(packages[""]?.dependencies ?? {});
  rmSync(path.join(stage, "node_modules"));
  for (const place of packagesBelow(packages, needed)) {
    // For one kind of machine: npm fetches it there.
    if (packages[place]?.optional) continue;
    const from = path.join(REPOSITORY, place);
    // What is below it has a place of its own.
    const filter = (file: string): boolean => !path.relative(from, file).startsWith("node_modules");
    cpSync(from, path.join(stage, place), { recursive: true, filter });
  }
  // Scripts, and packages for development, are for clones.
  const {
    scripts: _,
    devDependencies: _dev,
    ...manifest
  } = readJson(path.join(stage, "package.json")) as Manifest;
  const bundled = { ...manifest, bundleDependencies: needed };
  writeFileSync(path.join(stage, "package.json"), `${JSON.stringify(bundled, null, 2)}\n`);
}

/** As `helm package` does, but with fixed times. npm's package has the name that Helm would give it. */
function packChart({ stage, folder, version, seconds }: Made): void {
  const like = ["--sort=name", "--numeric-owner", "--owner=0", "--group=0", "--mode=u=rwX,go=rX"];
  const args = [
    "--format=ustar",
    ...like,
    `--mtime=@${seconds}`,
    "-C",
    "packaging/helm",
    "-cf",
    "-",
    "millrace",
  ];
  const archive = execFileSync("tar", args, { cwd: stage, maxBuffer: 2 ** 28 });
  writeFileSync(path.join(folder, `millrace-chart-${version}.tgz`), gzipSync(archive, { level: 9 }));
}

function sumOf(folder: string, file: string): string {
  const sum = createHash("sha256").update(readFileSync(path.join(folder, file)));
  return `${sum.digest("hex")}  ${file}\n`;
}

function git(...args: string[]): string {
  return execFileSync("git", args, { cwd: REPOSITORY, encoding: "utf8" }).trim();
}

function readLock(folder: string): Lock {
  return readJson(path.join(folder, "package-lock.json")) as Lock;
}

function readJson(file: string): unknown {
  return JSON.parse(readFileSync(file, "utf8"));
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { commit: { type: "string" }, out: { type: "string" } } });
  const out = path.resolve(values.out ?? path.join(REPOSITORY, "dist", "release"));
  if (git("status", "--porcelain") !== "") console.error("What is not committed is not part of the release.");
  const { commit, folder, files } = makeRelease(out, values.commit);
  console.log(`${commit}\n${files.map((file) => path.join(folder, file)).join("\n")}`);
}
