import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { REPOSITORY } from "./source-files.ts";

const PACKAGE = path.join(REPOSITORY, "node_modules", "@sparticuz", "chromium");
const UNPACK = 'import chromium from "@sparticuz/chromium"; await chromium.executablePath();';

/**
 * The Chromium that the tests' browser package brings packed; unpacked once for each version of it. The package
 * itself writes to the place where it then looks: a second process would start what is half written, and so would
 * every run after one that was ended meanwhile.
 */
export async function unpackChromium(): Promise<string> {
  const { version } = JSON.parse(await readFile(path.join(PACKAGE, "package.json"), "utf8")) as {
    version: string;
  };
  const folder = path.join(tmpdir(), `millrace-chromium-${version}`);
  const program = path.join(folder, "chromium");
  if (existsSync(program)) return program;
  const aside = await mkdtemp(`${folder}-`);
  // A process of its own, since the package unpacks into the folder for what is temporary.
  await promisify(execFile)(process.execPath, ["--input-type=module", "-e", UNPACK], {
    cwd: REPOSITORY,
    env: { PATH: process.env["PATH"], TMPDIR: aside },
  });
  // Another run may have been faster.
  await rename(aside, folder).catch(() => rm(aside, { recursive: true, force: true }));
  return program;
}
