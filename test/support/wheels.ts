import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdtemp, mkdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { REPOSITORY } from "./source-files.ts";

const CACHE = path.join(REPOSITORY, ".cache", "wheels");
const PIP = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"];

/**
 * A folder with the wheels of these packages and of all that they need, fetched once from the host's index; null where
 * that cannot be reached.
 */
export async function wheelsOf(...names: string[]): Promise<string | null> {
  const version = "import sys; print(*sys.version_info[:2], sep='.')";
  const { stdout } = await promisify(execFile)("python3", ["-c", version]);
  const folder = path.join(CACHE, [...names, stdout.trim()].join("-"));
  if (existsSync(folder)) return folder;
  await mkdir(CACHE, { recursive: true });
  const aside = await mkdtemp(path.join(CACHE, "aside-"));
  const options = ["--retries", "0", "--timeout", "20", "--only-binary", ":all:", "--dest", aside];
  try {
    await promisify(execFile)("python3", [...PIP, ...options, ...names]);
    // On `uid` they are read by the users of projects.
    await chmod(aside, 0o755);
    await rename(aside, folder);
    return folder;
  } catch (error) {
    console.warn(`${names.join(", ")} cannot be had here: ${(error as Error).message}`);
    return null;
  } finally {
    await rm(aside, { recursive: true, force: true });
  }
}
