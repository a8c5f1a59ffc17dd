import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { createFile } from "../byte-file.ts";
import type { ByteSink } from "../byte-file.ts";
import { BLOCK_BYTES, packHeader, paddingOf, paxRecords } from "./header.ts";
import type { TarHeader } from "./header.ts";

const CHUNK_BYTES = 1024 * 1024;

/** The name of the last entry: the hash of every byte before it. */
export const SEAL_NAME = "sha256";

/** Writes a tar file that any `tar` reads, with a hash at its end, readable by its owner alone. */
export class TarWriter {
  readonly #sink: ByteSink;
  readonly #hash = createHash("sha256");

  constructor(sink: ByteSink) {
    this.#sink = sink;
  }

  /** Throws if there is such a file. */
  static async create(path: string): Promise<TarWriter> {
    return new TarWriter(await createFile(path));
  }

  async addDirectory(name: string, mode: number, modifiedAt: number): Promise<void> {
    await this.#head({ name: `${name}/`, kind: "directory", mode, sizeBytes: 0, modifiedAt, target: "" });
  }

  async addLink(name: string, target: string, modifiedAt: number): Promise<void> {
    await this.#head({ name, kind: "link", mode: 0o777, sizeBytes: 0, modifiedAt, target });
  }

  async addBytes(name: string, bytes: Buffer, modifiedAt: number): Promise<void> {
    await this.#head({ name, kind: "file", mode: 0o600, sizeBytes: bytes.length, modifiedAt, target: "" });
    await this.#write(bytes);
    await this.#pad(bytes.length);
  }

  /** Adds a file of so many bytes, which come in pieces. Throws if they are not as many. */
  async addPieces(
    name: string,
    { mode, sizeBytes, modifiedAt }: Pick<TarHeader, "mode" | "sizeBytes" | "modifiedAt">,
    pieces: AsyncIterable<Buffer>,
  ): Promise<void> {
    await this.#head({ name, kind: "file", mode, sizeBytes, modifiedAt, target: "" });
    let left = sizeBytes;
    for await (const piece of pieces) {
      left -= piece.length;
      await this.#write(piece);
    }
    if (left !== 0) throw new Error(`${name} has not as many bytes as was said`);
    await this.#pad(sizeBytes);
  }

  /** False when the file changed its size while it was read: then it has the first size, cut or filled up. */
  async addFile(name: string, source: FileHandle): Promise<boolean> {
    const { size: sizeBytes, mode, mtimeMs } = await source.stat();
    await this.#head({ name, kind: "file", mode, sizeBytes, modifiedAt: mtimeMs / 1000, target: "" });
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    let left = sizeBytes;
    while (left > 0) {
      const { bytesRead } = await source.read(chunk, 0, Math.min(left, CHUNK_BYTES), null);
      if (bytesRead === 0) break;
      await this.#write(chunk.subarray(0, bytesRead));
      left -= bytesRead;
    }
    const hasShrunk = left > 0;
    for (; left > 0; left -= Math.min(left, CHUNK_BYTES))
      await this.#write(Buffer.alloc(Math.min(left, CHUNK_BYTES)));
    await this.#pad(sizeBytes);
    return !hasShrunk && (await source.stat()).size === sizeBytes;
  }

  /** Seals the archive and waits until it is on disk. */
  async finish(): Promise<void> {
    const seal = Buffer.from(this.#hash.copy().digest("hex"));
    await this.addBytes(SEAL_NAME, seal, 0);
    await this.#write(Buffer.alloc(2 * BLOCK_BYTES));
    await this.#sink.finish();
  }

  /** Lets go of the file as it is. */
  async abandon(): Promise<void> {
    await this.#sink.abandon();
  }

  async #head(header: TarHeader): Promise<void> {
    const pax = paxRecords(header);
    if (pax.length > 0) {
      const name = "pax";
      await this.#write(packHeader({ ...header, name, kind: "pax", sizeBytes: pax.length, target: "" }));
      await this.#write(pax);
      await this.#pad(pax.length);
    }
    await this.#write(packHeader(header));
  }

  async #pad(bytes: number): Promise<void> {
    await this.#write(Buffer.alloc(paddingOf(bytes)));
  }

  async #write(bytes: Buffer): Promise<void> {
    this.#hash.update(bytes);
    await this.#sink.write(bytes);
  }
}
