import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { mkdir, open, readlink } from "../../kit/files.ts";
import { AppError } from "../../model/errors.ts";
import { badPath, type VolumePath } from "./volume-files.ts";

const { O_RDONLY, O_DIRECTORY, O_NONBLOCK } = constants;
/** Finds without opening; Node does not name it. */
const O_PATH = 0o10000000;
/** Others may read, so that apps can, whoever they run as. */
const FOLDER_MODE = 0o755;

/**
 * Apps write into a volume while it is served here, and what they write may be links. So whatever is
 * opened is asked before where it really is, and from then on reached through its descriptor alone: a link may
 * lead around inside the volume, and nothing that an app swaps meanwhile leads out of it.
 */
export async function openInside(root: string, path: VolumePath, flags = O_RDONLY): Promise<FileHandle> {
  return await openReal(root, [root, ...path].join("/"), flags);
}

/** A folder inside the volume; those missing on the way to it are made. */
export async function makeFolder(root: string, path: VolumePath): Promise<FileHandle> {
  let folder = await openReal(root, root, O_DIRECTORY);
  for (const name of path) {
    try {
      const target = inFolder(folder, name);
      await mkdir(target, FOLDER_MODE).catch(unlessThere);
      const next = await openReal(root, target, O_DIRECTORY);
      await folder.close();
      folder = next;
    } catch (error) {
      await folder.close();
      throw error;
    }
  }
  return folder;
}

/** The address of something in a folder that is open. */
export function inFolder({ fd }: FileHandle, name: string): string {
  return `/proc/self/fd/${fd}/${name}`;
}

/** What the file system's complaints mean to a caller; anything else is an error of ours. */
export function volumeError(error: unknown): unknown {
  switch ((error as NodeJS.ErrnoException).code) {
    case "ENOENT":
    case "ENOTDIR":
    case "ELOOP":
    case "EACCES":
      return new AppError("not_found", { message: "The volume has no such file or folder." }, error);
    case "EISDIR":
    case "ENOTEMPTY":
    case "EEXIST":
      return badPath("is a folder");
    case "ENAMETOOLONG":
      return badPath("is too long");
    case "ENXIO":
      return badPath("is not a file");
    case "ENOSPC":
    case "EDQUOT":
    case "EROFS":
      return new AppError("storage_unavailable", {}, error);
    default:
      return error;
  }
}

/** Found first and opened when its real path is known: to open a pipe or a device outside would do something there. */
async function openReal(root: string, target: string, flags: number): Promise<FileHandle> {
  const found = await open(target, O_PATH);
  try {
    const self = `/proc/self/fd/${found.fd}`;
    const real = await readlink(self);
    // Without waiting: an app may have put a pipe there.
    if (real === root || real.startsWith(`${root}/`)) return await open(self, flags | O_NONBLOCK);
  } finally {
    await found.close();
  }
  // The same as if nothing were there: what is outside is nobody's business.
  throw Object.assign(new Error("outside the volume"), { code: "ENOENT" });
}

function unlessThere(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}
