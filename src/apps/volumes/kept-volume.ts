import { Readable } from "node:stream";
import { z } from "zod";
import { RefusedPath, type StorageHelper, type StorageOrder } from "../../engines/programs/storage-helper.ts";
import { volumeError } from "./volume.ts";
import { badPath, MAX_ENTRIES } from "./volume-files.ts";
import type { ByteSpan, OpenFile, SizeChange, VolumeEntry, VolumeFiles, VolumePath } from "./volume-files.ts";

// A helper is behind walls, but lives among what an app made: its answers are checked as if they were the app's.
const SIZE = z.int().min(0);
const ENTRIES = z.array(z.tuple([z.string().max(1_000), z.boolean(), SIZE, z.int()])).max(MAX_ENTRIES);
const NUMBER = z.string().regex(/^-?\d{1,20}$/);
const FACTS = z.strictObject({ size: NUMBER, modified_ns: NUMBER, inode: NUMBER });
const CHANGE = z.strictObject({ before: SIZE.nullable(), after: SIZE.nullable() });

/** A project's persistent storage where its files belong to its own user, as which a helper does all work. */
export class KeptVolume implements VolumeFiles {
  readonly #helper: StorageHelper;
  readonly #projectId: string;

  constructor(helper: StorageHelper, projectId: string) {
    this.#helper = helper;
    this.#projectId = projectId;
  }

  async list(names: VolumePath): Promise<VolumeEntry[]> {
    const found = ENTRIES.parse(await this.#ask({ operation: "list", path: names, most: MAX_ENTRIES }));
    return found.map(([name, isFolder, sizeBytes, modifiedAt]) => ({
      name,
      isFolder,
      sizeBytes,
      modifiedAt,
    }));
  }

  async openFile(names: VolumePath): Promise<OpenFile> {
    const known = FACTS.parse(await this.#ask({ operation: "facts", path: names }));
    return {
      sizeBytes: Number(known.size),
      modifiedNs: BigInt(known.modified_ns),
      bytes: (span) => Readable.from(this.#read({ operation: "read", path: names, known }, span)),
      close: () => Promise.resolve(),
    };
  }

  async put(source: string, names: VolumePath): Promise<SizeChange> {
    return changed(await this.#ask({ operation: "put", path: names }, source));
  }

  async removeFile(names: VolumePath): Promise<SizeChange> {
    return changed(await this.#ask({ operation: "remove", path: names }));
  }

  async removeFolder(names: VolumePath): Promise<void> {
    await this.#ask({ operation: "take", path: names });
  }

  async #ask(order: StorageOrder, source?: string): Promise<unknown> {
    return await this.#helper.ask(this.#projectId, order, source).catch(refused);
  }

  async *#read(order: StorageOrder, { first, last }: ByteSpan): AsyncGenerator<Buffer> {
    let left = last - first + 1;
    if (left <= 0) return;
    const { rest, end } = await this.#helper.stream(this.#projectId, { ...order, first, last });
    try {
      for await (const piece of rest as AsyncIterable<Buffer>) {
        left -= piece.length;
        if (left < 0) throw new Error("more came than was asked for");
        yield piece;
      }
      if (left > 0) throw new Error("the file became shorter while it was read");
    } finally {
      end();
    }
  }
}

function changed(answer: unknown): SizeChange {
  const { before: beforeBytes, after: afterBytes } = CHANGE.parse(answer);
  return { beforeBytes, afterBytes };
}

function refused(error: unknown): never {
  throw error instanceof RefusedPath ? badPath(error.message) : volumeError(error);
}
