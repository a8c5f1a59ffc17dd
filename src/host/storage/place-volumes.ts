import path from "node:path";
import type { Settings } from "../../config/setting-keys.ts";
import { lstat, mkdir, readdir, readlink, symlink } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";

type Places = Pick<Settings, "dataDir" | "blobs" | "volumes">;

/** What a service keeps beside the projects' folders. */
const OWN = /^\./;

/** Where nodes share volumes: as the settings say, or beside a directory of blobs. Null for the node's own data directory. */
export function sharedVolumes({ volumes, blobs }: Pick<Places, "volumes" | "blobs">): string | null {
  if (volumes !== null) return volumes;
  return blobs?.kind === "directory" ? path.join(blobs.path, "volumes") : null;
}

/** Links `storage` in the data directory to the shared volumes. Throws, with a remedy, if that folder is in use. */
export async function placeVolumes(places: Places): Promise<void> {
  const shared = sharedVolumes(places);
  if (shared === null) return;
  const storage = path.join(places.dataDir, "storage");
  await mkdir(shared, { recursive: true, mode: 0o700 });
  const found = await lstat(storage).catch(() => null);
  if (found?.isSymbolicLink()) {
    const target = path.resolve(places.dataDir, await readlink(storage));
    if (target === shared) return;
    throw new Error(
      `${storage} leads to ${target}, but volumes belong in ${shared}: remove that link, and start again`,
    );
  }
  const held = found ? (await readdir(storage)).filter((name) => !OWN.test(name)) : [];
  if (held.length > 0)
    throw new Error(
      `volumes belong in ${shared}, but ${storage} holds those of ${held.length} ${held.length === 1 ? "project" : "projects"}: ` +
        `move what is in ${storage} there, remove the empty folder, and start again`,
    );
  if (found) await removeTree(storage);
  await mkdir(places.dataDir, { recursive: true, mode: 0o700 });
  await symlink(shared, storage);
}

/** Throws where there are other nodes and apps would find different volumes on each. */
export function requireSharedVolumes(places: Places, others: readonly string[]): void {
  if (others.length === 0 || sharedVolumes(places) !== null) return;
  throw new Error(
    "this installation has other services, and the volumes of this one are in its own data directory: mount a file " +
      "system that all of them see, such as NFS or a bucket by s3fs or mountpoint-s3, and set MILLRACE_VOLUMES to its path on every machine",
  );
}
