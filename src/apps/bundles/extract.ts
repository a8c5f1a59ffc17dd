import type { FileHandle } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { crc32, createInflateRaw } from "node:zlib";
import { open, withHandle, writeChunks } from "../../kit/files.ts";
import { showName } from "./entry-names.ts";
import { BUNDLE_LIMITS, type BundleLimits } from "./judge-entry.ts";
import { makeFolder, placeFolder } from "./place-folder.ts";
import { planExtraction, type PlannedFile } from "./plan-extraction.ts";
import { Problems } from "./zip-directory.ts";
import { forEachConcurrently } from "../../kit/concurrency.ts";

export type ExtractOptions = {
  readonly signal?: AbortSignal;
  readonly limits?: Partial<BundleLimits>;
  /** Whether the bundle must have a `main.py` at its root; the default is yes. */
  readonly needsMain?: boolean;
};

/** What was unpacked; `noMain` is what to say if there is no `main.py` at its root, null if there is. */
export type Extracted = { readonly files: number; readonly bytes: number; readonly noMain: string | null };

const READ_BYTES = 64 * 1024;
const FILES_AT_ONCE = 8;

/** Unpacks a zip into a new folder: whole and synced, or nothing is left. Throws `BundleError`, or the signal's reason. */
export async function extractBundle(
  zip: string,
  into: string,
  { signal, limits, needsMain = true }: ExtractOptions = {},
): Promise<Extracted> {
  signal?.throwIfAborted();
  return await withHandle(await open(zip, "r"), async (source) => {
    const plan = await planExtraction(source, { limits: { ...BUNDLE_LIMITS, ...limits }, needsMain, signal });
    await placeFolder(into, async (aside) => {
      for (const folder of plan.folders) await makeFolder(path.join(aside, folder));
      const problems = new Problems();
      await forEachConcurrently(plan.files, FILES_AT_ONCE, async (file) => {
        signal?.throwIfAborted();
        const problem = await unpack(source, file, path.join(aside, file.name), signal);
        if (problem !== null) problems.add(`${showName(file.name)} ${problem}.`);
      });
      problems.throwIfAny();
      signal?.throwIfAborted();
      return plan;
    });
    const bytes = plan.files.reduce((sum, file) => sum + file.bytes, 0);
    return { files: plan.files.length, bytes, noMain: plan.noMain };
  });
}

/** What is wrong with the bytes of an entry: the rest of a sentence that begins with its name. */
class BadContent extends Error {}

async function unpack(source: FileHandle, file: PlannedFile, to: string, signal?: AbortSignal) {
  // Never through a link or into a file that is there.
  const target = await open(to, "wx", file.mode);
  try {
    const packed = readPacked(source, file, signal);
    const write = (chunks: AsyncIterable<Buffer>): Promise<void> =>
      writeChunks(target, checked(chunks, file));
    if (file.isDeflated && file.packedBytes > 0) {
      const inflate = createInflateRaw({ chunkSize: READ_BYTES });
      await pipeline(packed, inflate, write);
      if (inflate.bytesWritten !== file.packedBytes) throw new BadContent("has extra bytes after its end");
    } else {
      await write(packed);
    }
    await target.chmod(file.mode);
    await target.sync();
    return null;
  } catch (error) {
    if (error instanceof BadContent) return error.message;
    if (String((error as NodeJS.ErrnoException).code).startsWith("Z_"))
      return "is damaged: its bytes cannot be unpacked";
    throw error;
  } finally {
    await target.close();
  }
}

async function* readPacked(
  source: FileHandle,
  file: PlannedFile,
  signal?: AbortSignal,
): AsyncGenerator<Buffer> {
  const { dataStart, packedBytes } = file;
  for (let done = 0; done < packedBytes;) {
    signal?.throwIfAborted();
    const chunk = Buffer.allocUnsafe(Math.min(READ_BYTES, packedBytes - done));
    const { bytesRead } = await source.read(chunk, 0, chunk.length, dataStart + done);
    if (bytesRead === 0) throw new BadContent("is cut off");
    done += bytesRead;
    yield chunk.subarray(0, bytesRead);
  }
}

/** Lets through what comes to the size and checksum that were given, and not a byte more. */
async function* checked(chunks: AsyncIterable<Buffer>, file: PlannedFile): AsyncGenerator<Buffer> {
  let bytes = 0;
  let sum = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    // The sizes given keep the limits, so this bounds a bomb whose sizes lie.
    if (bytes > file.bytes) throw new BadContent("unpacks to more than its declared size");
    sum = crc32(chunk, sum);
    yield chunk;
  }
  if (bytes < file.bytes) throw new BadContent("unpacks to less than its declared size");
  if (sum !== file.crc32) throw new BadContent("is damaged: its checksum does not match");
}
