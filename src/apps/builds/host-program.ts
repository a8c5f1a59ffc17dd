import path from "node:path";
import { lstat, readdir, realpath } from "../../kit/files.ts";

/** Where apps write below the data directory; each may be a link to another disk. */
const OF_APPS = ["", "bundles", "caches", "environments", "once", "scratch", "storage", "work"];
/** Which is the host's where apps have no view of their own. */
const SHARED_MEMORY = "/dev/shm";

/** Whether a program, by its real path, is the host's: nothing that an app or a build can have put there. */
export async function isOfHost(program: string, dataDir: string): Promise<boolean> {
  const found = await lstat(program).catch(() => null);
  if (!found?.isFile() || ![0, process.getuid?.()].includes(found.uid)) return false;
  const storage = path.join(dataDir, "storage");
  const projects = await readdir(storage).catch(() => []);
  const theirs = [
    ...OF_APPS.map((name) => path.join(dataDir, name)),
    ...projects.map((name) => path.join(storage, name)),
    SHARED_MEMORY,
  ];
  for (const folder of theirs) {
    const real = await realpath(folder).catch(() => null);
    if (real !== null && program.startsWith(real + path.sep)) return false;
  }
  return true;
}
