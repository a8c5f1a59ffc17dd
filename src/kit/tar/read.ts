import { createHash } from "node:crypto";
import { openFile } from "../byte-file.ts";
import type { ByteReader } from "../byte-file.ts";
import { BadTar, nextHeader, paddingOf } from "./header.ts";
import type { TarHeader } from "./header.ts";
import { SEAL_NAME } from "./write.ts";

const CHUNK_BYTES = 1024 * 1024;

/** One entry; its content has to be read, or left, before the next one is asked for. */
export type TarEntry = TarHeader & { readonly content: AsyncGenerator<Buffer, void, void> };

/** Reads an archive that `TarWriter` wrote; throws `BadTar` for any other, and for one that was changed. */
export class TarReader {
  readonly #from: ByteReader;
  readonly #hash = createHash("sha256");

  constructor(from: ByteReader) {
    this.#from = from;
  }

  static async open(path: string): Promise<TarReader> {
    return new TarReader(await openFile(path));
  }

  async close(): Promise<void> {
    await this.#from.close();
  }

  /**
   * The entries in their order. What came is known to be whole only when the last one has come. A file may have the seal's
   * name: only the last entry holds the hash of all before it.
   */
  async *entries(): AsyncGenerator<TarEntry, void, void> {
    for (let wasLikeSeal = false; ;) {
      const digest = this.#hash.copy().digest("hex");
      const header = await nextHeader((bytes) => this.#take(bytes));
      if (!header)
        throw new BadTar(wasLikeSeal ? "it was changed after it was written" : "its end is missing");
      wasLikeSeal = header.name === SEAL_NAME && header.sizeBytes === digest.length;
      if (!wasLikeSeal) {
        const content = this.#content(header.sizeBytes);
        yield { ...header, content };
        for await (const _ of content);
        continue;
      }
      const held = await this.#take(header.sizeBytes);
      await this.#take(paddingOf(header.sizeBytes));
      if (held.toString("latin1") === digest) return await this.#readRest();
      yield { ...header, content: only(held) };
    }
  }

  async *#content(sizeBytes: number): AsyncGenerator<Buffer, void, void> {
    for (let left = sizeBytes; left > 0;) {
      const bytes = await this.#take(Math.min(left, CHUNK_BYTES));
      left -= bytes.length;
      yield bytes;
    }
    await this.#take(paddingOf(sizeBytes));
  }

  /** A sealed file shows only at its end that nothing was cut off. Nothing but zeros is there. */
  async #readRest(): Promise<void> {
    const rest = Buffer.allocUnsafe(CHUNK_BYTES);
    for (let [count, total] = [1, 0]; count > 0; total += count) {
      count = await this.#from.read(rest);
      // Zeros without end cost nothing where they are compressed.
      if (total > CHUNK_BYTES || rest.subarray(0, count).some((byte) => byte !== 0))
        throw new BadTar("something stands behind its end");
    }
  }

  /** Exactly so many bytes. */
  async #take(bytes: number): Promise<Buffer> {
    const taken = Buffer.allocUnsafe(bytes);
    for (let at = 0; at < bytes;) {
      const count = await this.#from.read(taken.subarray(at));
      if (count === 0) throw new BadTar("it ends too early");
      at += count;
    }
    this.#hash.update(taken);
    return taken;
  }
}

async function* only(bytes: Buffer): AsyncGenerator<Buffer, void, void> {
  yield bytes;
}
