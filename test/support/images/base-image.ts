import { execFile, execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { findContainerTool, toolEnvironment } from "../../../src/host/containers/container-tool.ts";
import type { ContainerTool } from "../../../src/host/containers/container-tool.ts";
import { findInterpreter } from "../../../src/host/interpreter.ts";

/** What the image is called. */
export const BASE_IMAGE = "localhost/millrace-test-base:1";

const PROGRAMS = ["/bin/sh", "/bin/cat", "/bin/ls", "/bin/sleep", "/usr/bin/id"];
/** Of the standard library: large, and of no use in a test. */
const LEFT_OUT =
  /\/(?:test|site-packages|__pycache__|idlelib|tkinter|turtledemo|lib2to3|config-[^/]*)(?:\/|$)/;

/** The engines of this host that work. */
export async function workingTools(): Promise<ContainerTool[]> {
  const found = await Promise.all(
    (["podman", "docker"] as const).map((kind) => findContainerTool(kind, process.env)),
  );
  return found.flatMap((each) => ("tool" in each ? [each.tool] : []));
}

/** Makes an image of this host's own Python and a shell, so that nothing has to be fetched. */
export async function makeBaseImage(tools: readonly ContainerTool[]): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-image-"));
  try {
    await fill(folder);
    for (const tool of tools) await importInto(tool, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export async function removeBaseImage(tools: readonly ContainerTool[]): Promise<void> {
  const env = toolEnvironment(process.env);
  for (const { program } of tools) await promisify(execFile)(program, ["rmi", "-f", BASE_IMAGE], { env });
}

/** Puts this host's own Python, a shell and a few programs into a folder that becomes the root of an image. */
export async function fill(folder: string): Promise<void> {
  for (const name of ["bin", "dev", "etc", "proc", "sys", "tmp", "usr/bin", "var/tmp"])
    mkdirSync(path.join(folder, name), { recursive: true, mode: 0o755 });
  for (const program of PROGRAMS) copyProgram(program, folder);
  const { path: python } = await findInterpreter("python3");
  const ask =
    "import os, sys; print(os.path.realpath(sys.executable), sys.base_prefix, os.path.dirname(os.__file__))";
  const [program = "", prefix = "", library = ""] = execFileSync(python, ["-I", "-c", ask], {
    encoding: "utf8",
  })
    .trim()
    .split(" ");
  copyProgram(program, folder);
  copy(library, folder);
  const dynamic = path.join(library, "lib-dynload");
  for (const file of execFileSync("ls", [dynamic], { encoding: "utf8" }).trim().split("\n"))
    copyLibraries(path.join(dynamic, file), folder);
  if (program !== "/usr/bin/python3") symlinkSync(program, path.join(folder, "usr/bin/python3"));
  // Its own folder may be one that only root enters.
  for (let above = path.join(folder, prefix); above !== folder; above = path.dirname(above))
    execFileSync("chmod", ["755", above]);
}

/** Puts a program of this host there too, with the libraries that it needs. */
export function copyProgram(program: string, folder: string, at = program): void {
  const target = path.join(folder, at);
  mkdirSync(path.dirname(target), { recursive: true });
  cpSync(realpathSync(program), target);
  copyLibraries(program, folder);
}

function copyLibraries(program: string, folder: string): void {
  const listing = execFileSync("ldd", [program], { encoding: "utf8" });
  for (const [library] of listing.matchAll(/\/\S+/g)) {
    const target = path.join(folder, library.replace(/:$/, ""));
    if (existsSync(target) || library.endsWith(":")) continue;
    mkdirSync(path.dirname(target), { recursive: true });
    cpSync(realpathSync(library), target);
  }
}

function copy(source: string, folder: string): void {
  cpSync(source, path.join(folder, source), {
    recursive: true,
    filter: (file) => !LEFT_OUT.test(file.slice(source.length)),
  });
}

async function importInto(tool: ContainerTool, folder: string): Promise<void> {
  const env = toolEnvironment(process.env);
  const pack = spawn("tar", ["--owner=0", "--group=0", "-C", folder, "-c", "."], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const unpack = spawn(tool.program, ["import", "-", BASE_IMAGE], { env, stdio: ["pipe", "ignore", "pipe"] });
  let told = "";
  unpack.stderr.on("data", (text: Buffer) => (told += text.toString()));
  pack.stdout.pipe(unpack.stdin);
  const code = await new Promise((resolve) => unpack.once("close", resolve));
  if (code !== 0) throw new Error(`${tool.kind} could not import the base image: ${told}`);
}
