/** Everything in a tar file comes in blocks of this size. */
export const BLOCK_BYTES = 512;

/** What an entry can be; `pax` holds what does not fit into the header after it. */
type EntryKind = "file" | "directory" | "link" | "pax";

/** The head of one entry. */
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
/** The largest number eleven octal digits hold. */
const MAX_SIZE_BYTES = 0o77777777777;

/** The file is no tar file, or not one that this reads. */
export class BadTar extends Error {
  constructor(reason: string) {
    super(`not a readable archive: ${reason}`);
    this.name = "BadTar";
  }
}

/** What of the header fits into no block of its own, as the records of a pax entry; empty when all of it does. */
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

/** The members that records of a pax entry give. */
export function readPax(bytes: Buffer): Partial<Record<string, string>> {
  const members: Partial<Record<string, string>> = {};
  for (let at = 0; at < bytes.length;) {
    const space = bytes.indexOf(" ", at);
    const length = Number(bytes.toString("latin1", at, space));
    const equals = bytes.indexOf("=", space);
    const isWhole = Number.isSafeInteger(length) && length > 0 && at + length <= bytes.length;
    if (space < 0 || equals < 0 || !isWhole) throw new BadTar("a broken extended header");
    members[bytes.toString("utf8", space + 1, equals)] = bytes.toString("utf8", equals + 1, at + length - 1);
    at += length;
  }
  return members;
}

/** The header as a block; what does not fit is cut off, and stands in the pax entry before it. */
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

/** The next entry's head, with what a pax entry before it says; null at the end. `take` gives exactly so many bytes. */
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

/** Content is filled up to whole blocks with so many bytes. */
export function paddingOf(sizeBytes: number): number {
  return (BLOCK_BYTES - (sizeBytes % BLOCK_BYTES)) % BLOCK_BYTES;
}

/** The sum of the block's bytes, its own place counted as spaces. */
function checksum(block: Buffer): number {
  let sum = 8 * 0x20;
  for (const [place, byte] of block.entries()) if (place < 148 || place >= 156) sum += byte;
  return sum;
}
