import { createHash, type Hash, randomUUID } from "node:crypto";
import path from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { mkdir, open, readdir, rename, rm, stat, withHandle, writeChunks } from "../../kit/files.ts";
import type { Clock } from "../../kit/clock.ts";
import { AppError } from "../../model/errors.ts";
import { refused, volumeError } from "./volume.ts";
import type { Trash } from "../../kit/remove-tree.ts";

export type Upload = { readonly id: string; readonly partCount: number };

/** How the sender names a part that it has sent. */
export type PartTag = { readonly partNumber: number; readonly etag: string };

export type UploadParts = {
  /** On the disk of the volumes, so that a file that is complete is moved into its place in one step. */
  readonly dir: string;
  readonly trash: Trash;
  readonly clock: Clock;
  /** Whether the disk is to take no more. */
  readonly shortage: () => string | null;
  readonly maxPartBytes?: number;
};

/** An upload in which nothing has happened for so long is abandoned. */
export const UPLOAD_LIFE_MS = 86_400_000;
const FILE_MODE = 0o644;
const READ_BYTES = 1024 * 1024;
/** Of one part. */
export const MAX_PART_BYTES = 5 * 1024 ** 3;
const TAG = /^"?([0-9a-f]{64})"?$/;

/** Uploads in parts, kept by number and hash: sending one again changes nothing, and the tags choose the parts. */
export class Uploads {
  readonly #parts: UploadParts;

  constructor(parts: UploadParts) {
    this.#parts = parts;
  }

  async begin(partCount: number): Promise<Upload> {
    const id = randomUUID();
    await mkdir(this.#parts.dir, { recursive: true, mode: 0o700 }).catch(refused);
    // Another user may move it into the volume; it sees only this one folder.
    await mkdir(this.#dirOf(id), { mode: 0o755 }).catch(refused);
    return { id, partCount };
  }

  /** Stores a part as it arrives; resolves with its tag. Throws `not_found` when there is no such upload. */
  async put({ id, partCount }: Upload, partNumber: number, source: Readable): Promise<string> {
    if (partNumber < 1 || partNumber > partCount) throw noUpload();
    const arriving = path.join(this.#dirOf(id), `${partNumber}.${randomUUID()}`);
    const hash = createHash("sha256");
    try {
      const file = await open(arriving, "wx", FILE_MODE);
      const take = (chunks: AsyncIterable<Buffer>) => this.#take(chunks, hash);
      await pipeline(source, take, file.createWriteStream());
      const tag = hash.digest("hex");
      await rename(arriving, this.#partFile(id, partNumber, tag));
      return `"${tag}"`;
    } catch (error) {
      await rm(arriving, { force: true });
      throw isAbsent(error) ? noUpload() : volumeError(error);
    }
  }

  /** Joins the parts, synced, for `take` to move or copy. Throws `bad_request` for a missing part or a wrong tag. */
  async complete<Taken>(
    { id, partCount }: Upload,
    tags: readonly PartTag[],
    take: (file: string) => Promise<Taken>,
  ): Promise<Taken> {
    let taken: Taken;
    try {
      await stat(this.#dirOf(id));
      const files = await this.#partFiles(id, partCount, tags);
      const whole = path.join(this.#dirOf(id), `whole.${randomUUID()}`);
      await this.#join(files, whole);
      taken = await take(whole);
    } catch (error) {
      throw isAbsent(error) ? noUpload() : volumeError(error);
    }
    await this.#discard(id);
    return taken;
  }

  /** Removes abandoned uploads. */
  async sweep(): Promise<void> {
    const { dir, clock, trash } = this.#parts;
    for (const id of await readdir(dir).catch(() => [])) {
      const facts = await stat(this.#dirOf(id)).catch(() => null);
      if (facts && clock.now() - facts.mtimeMs > UPLOAD_LIFE_MS) await this.#discard(id);
    }
    await trash.empty();
  }

  async #discard(id: string): Promise<void> {
    const { trash } = this.#parts;
    // It may be abandoned and completed at the same time.
    await rename(this.#dirOf(id), await trash.freePath()).catch(() => undefined);
    void trash.empty();
  }

  async *#take(chunks: AsyncIterable<Buffer>, hash: Hash): AsyncGenerator<Buffer> {
    const { shortage, maxPartBytes = MAX_PART_BYTES } = this.#parts;
    let bytes = 0;
    for await (const chunk of chunks) {
      const message = shortage();
      if (message !== null) throw new AppError("storage_unavailable", { message });
      bytes += chunk.length;
      if (bytes > maxPartBytes)
        throw new AppError("body_too_large", { message: `A part is larger than ${maxPartBytes} bytes.` });
      hash.update(chunk);
      yield chunk;
    }
  }

  async #partFiles(id: string, partCount: number, tags: readonly PartTag[]): Promise<string[]> {
    const byNumber = new Map(tags.map(({ partNumber, etag }) => [partNumber, TAG.exec(etag)?.[1]]));
    if (byNumber.size !== tags.length || tags.length !== partCount)
      throw badParts(`name each of the ${partCount} parts once`);
    const files: string[] = [];
    for (let number = 1; number <= partCount; number += 1) {
      const file = this.#partFile(id, number, byNumber.get(number) ?? "none");
      if (!(await stat(file).catch(() => null)))
        throw badParts(`part ${number} did not arrive with that ETag`);
      files.push(file);
    }
    return files;
  }

  async #join(files: readonly string[], whole: string): Promise<void> {
    const [first] = files;
    // Nearly all files have one part: it is the file.
    if (first !== undefined && files.length === 1) await rename(first, whole);
    await withHandle(await open(whole, "a", FILE_MODE), async (target) => {
      for (const file of files.length > 1 ? files : [])
        await writeChunks(target, (await open(file)).createReadStream({ highWaterMark: READ_BYTES }));
      await target.sync();
    });
  }

  #dirOf(id: string): string {
    return path.join(this.#parts.dir, id);
  }

  #partFile(id: string, partNumber: number, tag: string): string {
    return path.join(this.#dirOf(id), `${partNumber}-${tag}`);
  }
}

/** The answer where there is no such upload, or no longer. */
export function noUpload(): AppError {
  return new AppError("not_found", { message: "There is no such upload; it may be complete or abandoned." });
}

function badParts(problem: string): AppError {
  return new AppError("bad_request", { message: `parts: ${problem}` });
}

function isAbsent(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "ENOENT";
}
