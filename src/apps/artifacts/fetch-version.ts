import { randomUUID } from "node:crypto";
import path from "node:path";
import type { BlobStore } from "../../blobs/blob-store.ts";
import { hostPython } from "../../host/host-pythons.ts";
import { type Interpreter, pythonTag, runsOn, versionOfTag } from "../../host/interpreter.ts";
import { createFile, chownTree, lstat, mkdir, rename, statfs, symlink, writeFile } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { BadTar } from "../../kit/tar/archive.ts";
import { NoRoom, unpackFolder, type UnpackLimits } from "../../kit/tar/unpack-folder.ts";
import { READY, fetchedEnvironment } from "../builds/environments.ts";
import { fitMoved, smallText } from "../builds/moved-environments.ts";
import { syncTree } from "../builds/make-environment.ts";
import { makeFolder, syncFolder } from "../bundles/place-folder.ts";
import { MAX_UNPACKED_BYTES } from "./store-version.ts";

/** Of what is unpacked here. */
export const LIMITS = { maxEntries: 2_000_000, maxBytes: MAX_UNPACKED_BYTES };
/** What is left free on the disk for other work. */
const SPARED_BYTES = 256 * 1024 ** 2;

/** A blob, and how long it is where that is known. */
export type PackedBlob = { readonly hash: string; readonly bytes: number | null };

export type FetchParts = {
  readonly blobs: BlobStore;
  readonly dataDir: string;
  /** The service's own. */
  readonly python: Interpreter;
};

/** Where unfinished downloads are, below the data directory. */
export function fetchingDir(dataDir: string): string {
  return path.join(dataDir, "fetching");
}

/** Brings a bundle from its blob to its folder, which then belongs to that user. */
export async function fetchBundle(
  blob: PackedBlob,
  folder: string,
  user: number | null,
  parts: FetchParts,
  signal: AbortSignal,
): Promise<void> {
  await withPacked(blob, parts, signal, async (packed, limits, aside) => {
    const bundle = path.join(aside, "bundle");
    await makeFolder(bundle);
    await unpackFolder(packed, bundle, limits);
    if (user !== null) await chownTree(bundle, user);
    await syncTree(bundle, parts.python);
    await mkdir(path.dirname(folder), { recursive: true, mode: 0o700 });
    await rename(bundle, folder);
    await syncFolder(path.dirname(folder));
  });
}

/** Brings an environment from its blob to its folder, and fits it to that place and to that interpreter. */
export async function fetchEnvironment(
  blob: PackedBlob,
  folder: string,
  { user, interpreter }: { readonly user: number | null; readonly interpreter: Interpreter },
  parts: FetchParts,
  signal: AbortSignal,
): Promise<void> {
  await withPacked(blob, parts, signal, async (packed, limits) => {
    await fetchedEnvironment(folder, user, async () => {
      const madeAt = (await unpackFolder(packed, folder, limits, READY))?.toString("utf8");
      if (madeAt === undefined || !path.isAbsolute(madeAt))
        throw new BadTar("it does not say where it was made");
      await linkInterpreter(folder, interpreter);
      if (madeAt !== folder) await fitMoved(folder, madeAt);
      await syncTree(folder, parts.python);
    });
  });
}

/** An interpreter of this machine that runs packages of that tag; null for none. */
export async function interpreterFor(tag: string, own: Interpreter): Promise<Interpreter | null> {
  const version = versionOfTag(tag);
  if (version === null) return null;
  for (const python of [own, await hostPython(version, own, process.env)]) {
    const here = python && (await pythonTag(python));
    if (python && here && runsOn(tag, here)) return python;
  }
  return null;
}

/** Downloads a blob and checks its hash before `act` unpacks it, within the limits that it gets. */
async function withPacked(
  { hash, bytes }: PackedBlob,
  { blobs, dataDir }: FetchParts,
  signal: AbortSignal,
  act: (packed: string, limits: UnpackLimits, aside: string) => Promise<void>,
): Promise<void> {
  const aside = path.join(fetchingDir(dataDir), randomUUID());
  const packed = path.join(aside, "packed");
  try {
    await mkdir(aside, { recursive: true, mode: 0o700 });
    const room = await roomBytes(aside);
    if (bytes !== null && bytes > room) throw new NoRoom(bytes, room);
    await writeArriving(blobs.open(hash, { bytes, signal }), packed, room);
    await act(packed, { ...LIMITS, roomBytes: await roomBytes(aside) }, aside);
  } finally {
    await removeTree(aside);
  }
}

/** Writes what arrives to a new file; throws `NoRoom` for more than there is room for. */
export async function writeArriving(from: AsyncIterable<Buffer>, to: string, room: number): Promise<void> {
  const sink = await createFile(to);
  let bytes = 0;
  try {
    for await (const piece of from) {
      if ((bytes += piece.length) > room) throw new NoRoom(bytes, room);
      await sink.write(piece);
    }
  } finally {
    await sink.abandon();
  }
}

/** What may be written to the disk of a folder. */
export async function roomBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize - SPARED_BYTES;
}

async function linkInterpreter(folder: string, { path: python, version }: Interpreter): Promise<void> {
  const minor = version.split(".").slice(0, 2).join(".");
  for (const name of ["python", "python3", `python${minor}`]) {
    const link = path.join(folder, "bin", name);
    if ((await lstat(link).catch(() => null)) === null) await symlink(python, link);
  }
  const settings = path.join(folder, "pyvenv.cfg");
  // A build may have made it anything, of any size. Without it Python does not see an environment.
  const text = await smallText(settings);
  if (text === "") throw new BadTar("it has no pyvenv.cfg that could be read");
  const fitted = text
    .replace(/^home *=.*$/m, `home = ${path.dirname(python)}`)
    .replace(/^executable *=.*$/m, `executable = ${python}`);
  await writeFile(settings, fitted);
}
