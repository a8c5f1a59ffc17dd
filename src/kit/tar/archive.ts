import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { type ByteReader, type ByteSink, createFile, openFile } from "../files.ts";

const BLOCK_BYTES = 512;

/** `pax` has fields that do not fit into the header after it. */
type EntryKind = "file" | "directory" | "link" | "pax";

export type TarHeader = {
  readonly name: string;
  readonly kind: EntryKind;
  readonly mode: number;
  readonly sizeBytes: number;
  /** Epoch seconds. */
  readonly modifiedAt: number;
  /** Of a link; empty for anything else. */
  readonly target: string;
};

const TYPES: Record<EntryKind, string> = { file: "0", directory: "5", link: "2", pax: "x" };
const NAME_BYTES = 100;
const MAX_PAX_BYTES = 64 * 1024;
/** Three are read here, and other writers add few. */
const MAX_PAX_RECORDS = 16;
/** The largest number eleven octal digits hold. */
const MAX_SIZE_BYTES = 0o77777777777;

/** Not a tar file, or not one that is supported. */
export class BadTar extends Error {
  constructor(reason: string) {
    super(`not a readable archive: ${reason}`);
    this.name = "BadTar";
  }
}

/** The fields that do not fit into a header, as the records of a pax entry; empty if all fit. */
export function paxRecords({ name, target, sizeBytes }: TarHeader): Buffer {
  const records: string[] = [];
  if (Buffer.byteLength(name) > NAME_BYTES) records.push(record("path", name));
  if (Buffer.byteLength(target) > NAME_BYTES) records.push(record("linkpath", target));
  if (sizeBytes > MAX_SIZE_BYTES) records.push(record("size", String(sizeBytes)));
  return Buffer.from(records.join(""));
}

/** `<length> key=value\n`, where the length counts itself. */
function record(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  let length = Buffer.byteLength(rest) + 1;
  while (Buffer.byteLength(`${length}${rest}`) !== length) length += 1;
  return `${length}${rest}`;
}

/** The fields of a pax entry. */
export function readPax(bytes: Buffer): Partial<Record<string, string>> {
  const members: Partial<Record<string, string>> = {};
  for (let [at, count] = [0, 1]; at < bytes.length; count++) {
    const space = bytes.indexOf(" ", at);
    const length = Number(bytes.toString("latin1", at, space));
    const equals = bytes.indexOf("=", space);
    const isWhole = Number.isSafeInteger(length) && length > 0 && at + length <= bytes.length;
    if (space < 0 || equals < 0 || !isWhole || count > MAX_PAX_RECORDS)
      throw new BadTar("a broken extended header");
    members[bytes.toString("utf8", space + 1, equals)] = bytes.toString("utf8", equals + 1, at + length - 1);
    at += length;
  }
  return members;
}

/** The header as a block; fields that do not fit are cut off here, and whole in the pax entry before it. */
export function packHeader({ name, kind, mode, sizeBytes, modifiedAt, target }: TarHeader): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  const octal = (value: number, at: number, length: number): void => {
    block.write(value.toString(8).padStart(length - 1, "0"), at, length - 1, "latin1");
  };
  Buffer.from(name).copy(block, 0, 0, NAME_BYTES);
  octal(mode & 0o777, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(Math.min(sizeBytes, MAX_SIZE_BYTES), 124, 12);
  octal(Math.max(0, Math.floor(modifiedAt)), 136, 12);
  block.write(TYPES[kind], 156, "latin1");
  Buffer.from(target).copy(block, 157, 0, NAME_BYTES);
  block.write("ustar\x0000", 257, "latin1");
  octal(checksum(block), 148, 7);
  block.write(" ", 155, "latin1");
  return block;
}

/** Null for a block of zeros, which ends an archive. */
export function readHeader(block: Buffer): TarHeader | null {
  if (block.every((byte) => byte === 0)) return null;
  const text = (at: number, length: number): string => {
    const end = block.indexOf(0, at);
    return block.toString("utf8", at, end < 0 || end > at + length ? at + length : end);
  };
  const octal = (at: number, length: number): number => {
    const digits = text(at, length).trim();
    if (!/^[0-7]+$/.test(digits)) throw new BadTar("a header has an invalid number");
    return Number.parseInt(digits, 8);
  };
  if (octal(148, 8) !== checksum(block)) throw new BadTar("a header's checksum is wrong");
  const kind = (Object.keys(TYPES) as EntryKind[]).find((name) => TYPES[name] === text(156, 1));
  if (!kind) throw new BadTar(`an entry of a kind that is not allowed (${text(156, 1)})`);
  const prefix = text(345, 155);
  return {
    name: prefix === "" ? text(0, NAME_BYTES) : `${prefix}/${text(0, NAME_BYTES)}`,
    kind,
    mode: octal(100, 8) & 0o777,
    sizeBytes: octal(124, 12),
    modifiedAt: octal(136, 12),
    target: text(157, NAME_BYTES),
  };
}

/** The next entry's header, with the fields of a pax entry before it; null at the end. `take` reads that many bytes. */
export async function nextHeader(take: (bytes: number) => Promise<Buffer>): Promise<TarHeader | null> {
  const header = readHeader(await take(BLOCK_BYTES));
  if (header?.kind !== "pax") return header;
  if (header.sizeBytes > MAX_PAX_BYTES) throw new BadTar("a header is too large");
  const { path, linkpath, size } = readPax(await take(header.sizeBytes));
  await take(paddingOf(header.sizeBytes));
  const next = readHeader(await take(BLOCK_BYTES));
  if (!next || next.kind === "pax") throw new BadTar("an extended header has no entry");
  const sizeBytes = size === undefined ? next.sizeBytes : Number(size);
  if (!Number.isSafeInteger(sizeBytes) || sizeBytes < 0) throw new BadTar("an entry has no valid size");
  return { ...next, name: path ?? next.name, target: linkpath ?? next.target, sizeBytes };
}

/** The bytes that fill content up to whole blocks. */
export function paddingOf(sizeBytes: number): number {
  return (BLOCK_BYTES - (sizeBytes % BLOCK_BYTES)) % BLOCK_BYTES;
}

/** The sum of the block's bytes, with spaces in its own place. */
function checksum(block: Buffer): number {
  let sum = 8 * 0x20;
  for (const [place, byte] of block.entries()) if (place < 148 || place >= 156) sum += byte;
  return sum;
}

const CHUNK_BYTES = 1024 * 1024;

/** The name of the last entry: the hash of every byte before it. */
const SEAL_NAME = "sha256";

/** Writes a tar file that any `tar` reads, with a hash at its end. */
export class TarWriter {
  readonly #sink: ByteSink;
  readonly #hash = createHash("sha256");

  constructor(sink: ByteSink) {
    this.#sink = sink;
  }

  /** Throws if the file exists. */
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

  /** Adds a file in pieces; throws unless they have `sizeBytes` together. */
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

  /** False if the file changed its size meanwhile: then it is cut or filled to the first size. */
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

  /** Closes the file as it is. */
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

/** Its content must be read before the next entry, or is skipped. */
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

  /** Only after the last entry is the content verified. A file may have the seal's name too; the last entry is the seal. */
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

  /** Reads to the end, where a sealed file shows that it is whole; only zeros follow. */
  async #readRest(): Promise<void> {
    const rest = Buffer.allocUnsafe(CHUNK_BYTES);
    for (let [count, total] = [1, 0]; count > 0; total += count) {
      count = await this.#from.read(rest);
      // Compressed, endless zeros cost nothing.
      if (total > CHUNK_BYTES || rest.subarray(0, count).some((byte) => byte !== 0))
        throw new BadTar("something stands behind its end");
    }
  }

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
