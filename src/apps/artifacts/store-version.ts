import path from "node:path";
import type { BlobStore, StoredBlob } from "../../blobs/blob-store.ts";
import { readImageRecord } from "../../host/containers/containers.ts";
import { pythonTag } from "../../host/interpreter.ts";
import { readdir, readlink, realpath } from "../../kit/files.ts";
import { Unpackable, packFolder } from "../../kit/tar/pack-folder.ts";
import { BuildError } from "../builds/site.ts";
import { isOfHost } from "../builds/version-fault.ts";

/** Of a bundle or an environment, unpacked: the largest environments that are known have 100,000 files and 20 GB. */
export const MAX_UNPACKED_BYTES = 32 * 1024 ** 3;

const INTERPRETER = /^python[\d.]*$/;

/** Stores a bundle. Throws a `BuildError` for one that would not be the same on another machine. */
export async function storeBundle(
  folder: string,
  blobs: BlobStore,
  signal: AbortSignal,
): Promise<StoredBlob> {
  try {
    return await blobs.put(packFolder(folder, { maxBytes: MAX_UNPACKED_BYTES }), signal);
  } catch (error) {
    if (!(error instanceof Unpackable)) throw error;
    throw new BuildError(
      `the bundle cannot be copied to other services: ${error.message}. Remove it in the last of shell_commands, or do not deploy it`,
      { cause: error },
    );
  }
}

/** Stores an environment without the links to its interpreter; throws `Unpackable` if other machines could not use it. */
export async function storeEnvironment(
  folder: string,
  blobs: BlobStore,
  dataDir: string,
  signal: AbortSignal,
): Promise<StoredBlob & { readonly tag: string }> {
  if (readImageRecord(folder)) throw new Unpackable(path.basename(folder), "has its packages in an image");
  const python = await realpath(path.join(folder, "bin", "python")).catch(() => "");
  // One that a build has put there is the app's own: the service must not run it.
  const tag = (await isOfHost(python, dataDir)) ? await pythonTag({ path: python }) : null;
  if (tag === null) throw new Unpackable("bin/python", "is no interpreter of this host");
  const links = await interpreterLinks(path.join(folder, "bin"));
  const stored = await blobs.put(
    packFolder(folder, { leftOut: (name) => links.has(name), maxBytes: MAX_UNPACKED_BYTES }),
    signal,
  );
  return { ...stored, tag };
}

async function interpreterLinks(bin: string): Promise<ReadonlySet<string>> {
  const links = new Set<string>();
  for (const name of await readdir(bin)) {
    if (!INTERPRETER.test(name)) continue;
    const target = await readlink(path.join(bin, name)).catch(() => "");
    if (path.isAbsolute(target)) links.add(`bin/${name}`);
  }
  return links;
}
