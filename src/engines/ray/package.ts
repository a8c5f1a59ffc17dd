import { createHash } from "node:crypto";
import { readFile, readdir } from "node:fs/promises";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import { ZipFile } from "yazl";
import { PYTHON_DIR } from "../../config/package-files.ts";

/** What runs on the cluster: the supervisor, the agent that its actors start, walls, and the harness behind them. */
const PACKAGES = ["millrace_ray", "millrace_agent", "millrace_walls", "millrace_worker"] as const;
/** Where the format's time begins: equal files make equal archives. */
const ENTRY = { mtime: new Date(1980, 0, 1), forceDosTimestamp: true, mode: 0o100644, compress: false };

/** The files of a job, and the name that Ray knows them by: made of what is in them, so that they come there once. */
export type JobPackage = { readonly name: string; readonly archive: Buffer };

/** Packs our Python for the cluster. */
export async function packJob(): Promise<JobPackage> {
  const zip = new ZipFile();
  for (const folder of PACKAGES) {
    const names = await readdir(path.join(PYTHON_DIR, folder));
    for (const name of names.filter((each) => each.endsWith(".py")).toSorted())
      zip.addBuffer(await readFile(path.join(PYTHON_DIR, folder, name)), `${folder}/${name}`, ENTRY);
  }
  zip.end();
  const archive = await buffer(zip.outputStream);
  const hash = createHash("sha256").update(archive).digest("hex").slice(0, 32);
  return { name: `_ray_pkg_${hash}.zip`, archive };
}
