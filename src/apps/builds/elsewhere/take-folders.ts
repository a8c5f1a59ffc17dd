import path from "node:path";
import type { StoredBlob } from "../../../blobs/blob-store.ts";
import { IMAGE_RECORD } from "../../../host/containers/containers.ts";
import { createFile, chownTree, rename } from "../../../kit/files.ts";
import { removeTree } from "../../../kit/remove-tree.ts";
import { BadTar } from "../../../kit/tar/archive.ts";
import { repack, Unpackable } from "../../../kit/tar/pack-folder.ts";
import type { Repacking } from "../../../kit/tar/pack-folder.ts";
import { NoRoom, unpackFolder } from "../../../kit/tar/unpack-folder.ts";
import type { Builder } from "../../../engines/build-seats.ts";
import { LIMITS, roomBytes } from "../../artifacts/fetch-version.ts";
import { makeFolder } from "../../bundles/place-folder.ts";
import { BLOB_RECORD } from "../blob-record.ts";
import { BuildError } from "../build-error.ts";
import { READY } from "../environments.ts";
import { syncTree } from "../python-sync.ts";
import type { BuildSite, Elsewhere } from "../site.ts";

const INTERPRETER = /^bin\/python[\d.]*$/;
/** What services leave in an environment: nobody else's word counts there. */
const OURS: ReadonlySet<string> = new Set([READY, IMAGE_RECORD, BLOB_RECORD]);

const NOT_TAKEN = "could not be taken from where it was built";

/** Without the links to its interpreter, which is the machine's. */
const isLeftOut: NonNullable<Repacking["leftOut"]> = ({ name, kind, target }) =>
  OURS.has(name) || (kind === "link" && INTERPRETER.test(name) && target.startsWith("/"));

/** Stores the environment that a seat has built, and that is in that folder there. */
export async function storeFromSeat(
  seat: Builder,
  folder: string,
  { blobs, maxFolderBytes }: Elsewhere,
  signal: AbortSignal,
): Promise<StoredBlob> {
  const how = { ...limitsOf(maxFolderBytes), leftOut: isLeftOut, added: { name: READY, text: folder } };
  return await judged(`the environment ${NOT_TAKEN}`, () =>
    seat.take("environment", (archive) => blobs.put(repack(archive, how), signal)),
  );
}

/** Replaces the bundle by what a seat has made of it. */
export async function bringBundleBack(
  seat: Builder,
  { bundleDir, asideDir, user, keeperPython, pythonVersion }: BuildSite,
  { maxFolderBytes }: Elsewhere,
): Promise<void> {
  const limits = limitsOf(maxFolderBytes);
  const packed = path.join(asideDir, "bundle.packed");
  const fresh = path.join(asideDir, "bundle.new");
  await judged(`the bundle ${NOT_TAKEN}`, async () => {
    await seat.take("bundle", async (archive) => {
      const room = await roomBytes(asideDir);
      const sink = await createFile(packed);
      let bytes = 0;
      try {
        for await (const piece of repack(archive, limits)) {
          if ((bytes += piece.length) > room) throw new NoRoom(bytes, room);
          await sink.write(piece);
        }
      } finally {
        await sink.abandon();
      }
    });
    await makeFolder(fresh);
    await unpackFolder(packed, fresh, { ...limits, roomBytes: await roomBytes(asideDir) });
  });
  if (user !== null) await chownTree(fresh, user);
  await syncTree(fresh, { path: keeperPython, version: pythonVersion });
  await removeTree(packed);
  await removeTree(bundleDir);
  await rename(fresh, bundleDir);
}

/** A seat has room for no more. */
function limitsOf(maxFolderBytes: number): typeof LIMITS {
  return { ...LIMITS, maxBytes: Math.min(LIMITS.maxBytes, maxFolderBytes) };
}

/** What is wrong with a folder is the build's own doing: a name that this disk does not take, too. */
export async function judged<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const isNoName = (error as NodeJS.ErrnoException).code === "ENAMETOOLONG";
    if (isNoName || error instanceof BadTar || error instanceof Unpackable || error instanceof NoRoom)
      throw new BuildError(`${what}: ${error instanceof Error ? error.message : ""}`, { cause: error });
    throw error;
  }
}
