import { createHash } from "node:crypto";
import path from "node:path";
import type { StoredBlob } from "../../../blobs/blob-store.ts";
import { chownTree, rename } from "../../../kit/files.ts";
import { removeTree } from "../../../kit/remove-tree.ts";
import { BadTar } from "../../../kit/tar/archive.ts";
import { Unpackable } from "../../../kit/tar/pack-folder.ts";
import { NoRoom, isGzip, unpackFolder } from "../../../kit/tar/unpack-folder.ts";
import type { Builder } from "../../../engines/build-seats.ts";
import { LIMITS, roomBytes, writeArriving } from "../../artifacts/fetch-version.ts";
import { makeFolder } from "../../bundles/place-folder.ts";
import { BuildError, type BuildSite, type RemoteBuilds } from "../site.ts";
import { syncTree } from "../make-environment.ts";

const DIGEST_BYTES = 32;

/** Stores an environment as the seat packed it, unchecked: those that unpack it trust nothing in it. */
export async function storeFromSeat(
  seat: Builder,
  { blobs, maxFolderBytes }: RemoteBuilds,
  signal: AbortSignal,
): Promise<StoredBlob> {
  return await judged("environment", () =>
    seat.take("environment", (archive) => blobs.put(wholeArchive(archive, maxFolderBytes), signal)),
  );
}

/** Replaces the bundle with the one in a seat, which the build's commands may have changed. */
export async function bringBundleBack(
  { seat, bundleDir, asideDir, user, python }: BuildSite & { readonly seat: Builder },
  { maxFolderBytes }: RemoteBuilds,
): Promise<void> {
  const packed = path.join(asideDir, "bundle.packed");
  const fresh = path.join(asideDir, "bundle.new");
  await judged("bundle", async () => {
    const room = await roomBytes(asideDir);
    await seat.take("bundle", (archive) =>
      writeArriving(wholeArchive(archive, maxFolderBytes), packed, room),
    );
    await makeFolder(fresh);
    const maxBytes = Math.min(LIMITS.maxBytes, maxFolderBytes);
    await unpackFolder(packed, fresh, { ...LIMITS, maxBytes, roomBytes: await roomBytes(asideDir) });
  });
  if (user !== null) await chownTree(fresh, user);
  await syncTree(fresh, python);
  await removeTree(packed);
  await removeTree(bundleDir);
  await rename(fresh, bundleDir);
}

/** An archive from a seat, without the SHA-256 behind it; throws `BadTar` if it is cut off, not gzip or too large. */
async function* wholeArchive(from: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Buffer> {
  const digest = createHash("sha256");
  let bytes = 0;
  // The end may be anywhere: so many bytes are always kept back.
  let tail: Buffer = Buffer.alloc(0);
  for await (const piece of from) {
    const data = Buffer.concat([tail, piece]);
    const body = data.subarray(0, -DIGEST_BYTES);
    tail = data.subarray(bytes === 0 && body.length < 2 ? 0 : body.length);
    if (tail.length > DIGEST_BYTES || body.length === 0) continue;
    if (bytes === 0 && !isGzip(body)) throw new BadTar("it is not compressed as it should be");
    bytes += body.length;
    if (bytes > maxBytes) throw new BadTar("it holds too much");
    digest.update(body);
    yield body;
  }
  if (bytes === 0 || !digest.digest().equals(tail)) throw new BadTar("it ends too early");
}

/** Fails the build for what is wrong with a folder that it has made, such as a name that this disk does not take. */
async function judged<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const isNoName = (error as NodeJS.ErrnoException).code === "ENAMETOOLONG";
    if (!isNoName && !(error instanceof BadTar || error instanceof Unpackable || error instanceof NoRoom))
      throw error;
    const { message } = error as Error;
    const why = `the ${what} could not be taken from where it was built: ${message}`;
    throw new BuildError(why, { cause: error });
  }
}
