import { createHash } from "node:crypto";
import { openFile } from "../byte-file.ts";
import type { ByteReader } from "../byte-file.ts";
import { BLOCK_BYTES, BadTar, readHeader, readPax } from "./header.ts";
import type { TarHeader } from "./header.ts";
import { SEAL_NAME } from "./write.ts";

const CHUNK_BYTES = 1024 * 1024;
const MAX_PAX_BYTES = 64 * 1024;
const MAX_SEAL_BYTES = 64;

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

  /** The entries in their order. What came is known to be whole only when the last one has come. */
  async *entries(): AsyncGenerator<TarEntry, void, void> {
    for (;;) {
      const digest = this.#hash.copy().digest("hex");
      const header = await this.#header();
      if (!header) throw new BadTar("its end is missing");
      if (header.name === SEAL_NAME) {
        const sealed = await this.#small(header.sizeBytes, MAX_SEAL_BYTES);
        if (sealed.toString("latin1") !== digest) throw new BadTar("it was changed after it was written");
        await this.#readRest();
        return;
      }
      const content = this.#content(header.sizeBytes);
      yield { ...header, content };
      for await (const _ of content);
    }
  }

  async #header(): Promise<TarHeader | null> {
    const header = readHeader(await this.#take(BLOCK_BYTES));
    if (header?.kind !== "pax") return header;
    const { path, linkpath, size } = readPax(await this.#small(header.sizeBytes, MAX_PAX_BYTES));
    const next = readHeader(await this.#take(BLOCK_BYTES));
    if (!next || next.kind === "pax") throw new BadTar("an extended header has no entry");
    const sizeBytes = size === undefined ? next.sizeBytes : Number(size);
    if (!Number.isSafeInteger(sizeBytes) || sizeBytes < 0) throw new BadTar("an entry has no valid size");
    return { ...next, name: path ?? next.name, target: linkpath ?? next.target, sizeBytes };
  }

  async *#content(sizeBytes: number): AsyncGenerator<Buffer, void, void> {
    for (let left = sizeBytes; left > 0;) {
      const bytes = await this.#take(Math.min(left, CHUNK_BYTES));
      left -= bytes.length;
      yield bytes;
    }
    const over = sizeBytes % BLOCK_BYTES;
    if (over > 0) await this.#take(BLOCK_BYTES - over);
  }

  async #small(sizeBytes: number, maxBytes: number): Promise<Buffer> {
    if (sizeBytes > maxBytes) throw new BadTar("a header is too large");
    const parts: Buffer[] = [];
    for await (const part of this.#content(sizeBytes)) parts.push(part);
    return Buffer.concat(parts);
  }

  /** A sealed file shows only at its end that nothing was cut off. */
  async #readRest(): Promise<void> {
    const rest = Buffer.allocUnsafe(CHUNK_BYTES);
    while ((await this.#from.read(rest)) > 0);
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
