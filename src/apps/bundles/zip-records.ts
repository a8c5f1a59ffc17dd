/** A file as a zip's directory names it. */
export type ZipRecord = {
  readonly name: Buffer;
  readonly mode: number;
  /** Where its local header begins. */
  readonly start: number;
  readonly crc32: number;
  readonly packedBytes: number;
  readonly bytes: number;
};

/** A number and the bytes it takes. */
type Field = readonly [number, 2 | 4 | 8];

const MAX_16 = 0xffff;
/** Sizes follow the content; names are UTF-8. */
const FLAGS = 0x0808;
const DEFLATED = 8;
const VERSION = 20;
const ZIP64_VERSION = 45;
const MADE_ON_UNIX = (3 << 8) | VERSION;
const REGULAR = 0o100000;
/** The first of January 1980, where the format's time begins: equal files make equal zips. */
const DATE = 0x0021;
const ZIP64_END_BYTES = 56;

/** What stands in front of a file's content. */
export function localHeader(name: Buffer): Buffer {
  return Buffer.concat([pack("PK\u0003\u0004", [[VERSION, 2], ...facts(0, 0, 0, name.length)]), name]);
}

/** What stands behind it. */
export function descriptor({ crc32, packedBytes, bytes }: ZipRecord): Buffer {
  return pack("PK\u0007\u0008", [
    [crc32, 4],
    [packedBytes, 4],
    [bytes, 4],
  ]);
}

export function directoryEntry({ name, mode, start, crc32, packedBytes, bytes }: ZipRecord): Buffer {
  const fields: Field[] = [
    [MADE_ON_UNIX, 2],
    [VERSION, 2],
    ...facts(crc32, packedBytes, bytes, name.length),
    // No comment, the first disk, no internal attributes.
    [0, 2],
    [0, 2],
    [0, 2],
    [((REGULAR | mode) << 16) >>> 0, 4],
    [start, 4],
  ];
  return Buffer.concat([pack("PK\u0001\u0002", fields), name]);
}

/** What ends a zip. Only the count of files may pass what the format once had room for. */
export function endRecords(files: number, start: number, bytes: number): Buffer {
  const shortCount = Math.min(files, MAX_16);
  const end = pack("PK\u0005\u0006", [
    [0, 2],
    [0, 2],
    [shortCount, 2],
    [shortCount, 2],
    [bytes, 4],
    [start, 4],
    [0, 2],
  ]);
  if (files < MAX_16) return end;
  const large = pack("PK\u0006\u0006", [
    [ZIP64_END_BYTES - 12, 8],
    [MADE_ON_UNIX, 2],
    [ZIP64_VERSION, 2],
    [0, 4],
    [0, 4],
    [files, 8],
    [files, 8],
    [bytes, 8],
    [start, 8],
  ]);
  const locator = pack("PK\u0006\u0007", [
    [0, 4],
    [start + bytes, 8],
    [1, 4],
  ]);
  return Buffer.concat([large, locator, end]);
}

/** The fields that a local header and a directory entry have in common; no extra field. */
function facts(crc32: number, packedBytes: number, bytes: number, nameBytes: number): Field[] {
  return [
    [FLAGS, 2],
    [DEFLATED, 2],
    [0, 2],
    [DATE, 2],
    [crc32, 4],
    [packedBytes, 4],
    [bytes, 4],
    [nameBytes, 2],
    [0, 2],
  ];
}

function pack(signature: string, fields: readonly Field[]): Buffer {
  const packed = Buffer.alloc(4 + fields.reduce((sum, [, bytes]) => sum + bytes, 0));
  packed.write(signature, "latin1");
  let at = 4;
  for (const [value, bytes] of fields) {
    if (bytes === 8) packed.writeBigUInt64LE(BigInt(value), at);
    else packed.writeUIntLE(value, at, bytes);
    at += bytes;
  }
  return packed;
}
