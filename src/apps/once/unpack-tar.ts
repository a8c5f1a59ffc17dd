import path from "node:path";
import { BadTar, nextHeader, paddingOf, type TarHeader } from "../../kit/tar/archive.ts";
import { AppError } from "../../model/errors.ts";
import { chmod, mkdir, open, withHandle } from "../../kit/files.ts";
import { judgeEntryName, showName } from "../bundles/entry-names.ts";

/** Bytes that arrive in pieces of any size, read in pieces of the reader's size. */
class ByteSource {
  readonly #pieces: AsyncIterator<Buffer>;
  readonly #maxBytes: number;
  #rest: Buffer = Buffer.alloc(0);
  #arrivedBytes = 0;

  constructor(from: AsyncIterable<Buffer>, maxBytes: number) {
    this.#pieces = from[Symbol.asyncIterator]();
    this.#maxBytes = maxBytes;
  }

  /** Exactly so many; throws `BadTar` when there are fewer, and `body_too_large` past the limit. */
  async take(count: number): Promise<Buffer> {
    const parts = [this.#rest];
    let bytes = this.#rest.length;
    while (bytes < count) {
      const { done, value } = await this.#pieces.next();
      if (done === true) throw new BadTar("it ends too early");
      this.#arrivedBytes += value.length;
      const message = `The archive is larger than ${this.#maxBytes} bytes.`;
      if (this.#arrivedBytes > this.#maxBytes) throw new AppError("body_too_large", { message });
      parts.push(value);
      bytes += value.length;
    }
    const all = parts.length === 1 ? this.#rest : Buffer.concat(parts, bytes);
    this.#rest = all.subarray(count);
    return all.subarray(0, count);
  }
}

const CHUNK_BYTES = 256 * 1024;

/** How many files and folders an archive may come to, those among them that only names ask for. */
const MAX_ENTRIES = 20_000;

/** How many bytes an archive may have, as it comes: it is not compressed. */
export const MAX_TAR_BYTES = 64 * 1024 * 1024;

/** Unpacks a tar into an empty folder. Throws `upload_invalid` for all but plain files and folders, or `body_too_large`. */
export async function unpackTar(
  from: AsyncIterable<Buffer>,
  into: string,
  maxEntries = MAX_ENTRIES,
): Promise<void> {
  const source = new ByteSource(from, MAX_TAR_BYTES);
  const places = new Set<string>();
  try {
    for (let count = 1; ; count++) {
      const header = await nextHeader((bytes) => source.take(bytes));
      if (!header) break;
      const names = judge(header);
      for (let depth = 1; depth <= names.length; depth++) places.add(names.slice(0, depth).join("/"));
      // Entries too: one that names a folder again adds no place.
      if (Math.max(count, places.size) > maxEntries)
        throw new BadTar(`more than ${maxEntries} files and folders`);
      await unpackEntry(source, header, path.join(into, ...names));
    }
  } catch (error) {
    throw uploadError(error);
  }
}

/** The place below the root that an entry names; none for the root itself. */
function judge({ name, kind }: TarHeader): readonly string[] {
  if (kind === "link") throw new BadTar(`${showName(name)} is a link`);
  // What `tar` calls the folder itself.
  const inner = name.replace(/^(?:\.\/+)+/, "");
  if (kind === "directory" && (inner === "" || inner === ".")) return [];
  const judged = judgeEntryName(Buffer.from(inner));
  if (judged.kind === "refused") throw new BadTar(`${showName(name)} ${judged.problem}`);
  const { names, isFolder } = judged.name;
  if (isFolder && kind !== "directory") throw new BadTar(`${showName(name)} is the name of a folder`);
  return names;
}

async function unpackEntry(source: ByteSource, header: TarHeader, target: string): Promise<void> {
  const { kind, mode, sizeBytes } = header;
  if (kind === "directory") return void (await mkdir(target, { recursive: true }));
  await mkdir(path.dirname(target), { recursive: true });
  await withHandle(await open(target, "wx", 0o644), async (file) => {
    for (let left = sizeBytes; left > 0;) {
      const bytes = await source.take(Math.min(left, CHUNK_BYTES));
      await file.writeFile(bytes);
      left -= bytes.length;
    }
  });
  if ((mode & 0o100) !== 0) await chmod(target, 0o755);
  await source.take(paddingOf(sizeBytes));
}

/** What the sender may learn of an error. */
function uploadError(error: unknown): unknown {
  if (error instanceof BadTar)
    return new AppError("upload_invalid", { message: `The file is ${error.message}.` });
  const { code } = error as NodeJS.ErrnoException;
  if (code === "EEXIST" || code === "ENOTDIR" || code === "EISDIR") {
    const message = "The file is not a readable archive: two entries have the same name.";
    return new AppError("upload_invalid", { message });
  }
  if (code === "ENOSPC" || code === "EDQUOT") return new AppError("storage_unavailable");
  return error;
}
