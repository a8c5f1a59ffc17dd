import { constants } from "node:fs";
import { mkdir, open, readlink } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { AppError } from "../../model/errors.ts";
import { badPath } from "./volume-path.ts";
import type { VolumePath } from "./volume-path.ts";

const { O_RDONLY, O_DIRECTORY, O_NONBLOCK } = constants;
/** Others may read, so that apps can, whoever they run as. */
const FOLDER_MODE = 0o755;

/**
 * Apps write into a volume while it is served here, and what they write may be links. So whatever is opened is
 * asked afterwards where it really is, and from then on reached through its descriptor alone: a link may lead
 * around inside the volume, and nothing that an app swaps meanwhile leads out of it.
 */
export async function openInside(root: string, path: VolumePath, flags = O_RDONLY): Promise<FileHandle> {
  return await openReal(root, [root, ...path].join("/"), flags);
}

/** A folder inside the volume; those missing on the way to it are made. */
export async function makeFolder(root: string, path: VolumePath): Promise<FileHandle> {
  let folder = await openReal(root, root, O_DIRECTORY);
  for (const name of path) {
    try {
      const place = inFolder(folder, name);
      await mkdir(place, FOLDER_MODE).catch(unlessThere);
      const next = await openReal(root, place, O_DIRECTORY);
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
      return badPath("is that of a folder");
    case "ENAMETOOLONG":
      return badPath("is too long");
    case "ENXIO":
      return badPath("is not that of a file");
    case "ENOSPC":
    case "EDQUOT":
    case "EROFS":
      return new AppError("storage_unavailable", {}, error);
    default:
      return error;
  }
}

async function openReal(root: string, place: string, flags: number): Promise<FileHandle> {
  // Else a pipe that an app has put there would be waited for.
  const handle = await open(place, flags | O_NONBLOCK);
  try {
    const real = await readlink(`/proc/self/fd/${handle.fd}`);
    if (real === root || real.startsWith(`${root}/`)) return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
  await handle.close();
  // The same as if nothing were there: what is outside is nobody's business.
  throw Object.assign(new Error("outside the volume"), { code: "ENOENT" });
}

function unlessThere(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}
