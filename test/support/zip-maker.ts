import { crc32, deflateRawSync } from "node:zlib";

/** What a header says; whatever is given stands there, true or not. */
type ZipFacts = {
  name?: string | Buffer;
  flags?: number;
  method?: number;
  crc32?: number;
  packedBytes?: number;
  bytes?: number;
  extra?: Buffer;
};

/** An entry. Left alone it is an honest file; every field can be made to lie. */
export type ZipItem = ZipFacts & {
  name: string | Buffer;
  content?: string | Buffer;
  /** The bytes in the zip, instead of the packed content. */
  packed?: Buffer;
  /** As in `stat`, with the file's kind. */
  mode?: number;
  /** The system it says it was made on; 3 is Unix. */
  host?: number;
  /** What the header in front of the content says otherwise than the directory. */
  local?: ZipFacts & { signature?: string };
  /** Where the directory says the entry begins. */
  start?: number;
  /** No header and no content: the directory alone has it. */
  isListedOnly?: boolean;
};

export type ZipFrame = {
  before?: Buffer;
  /** Between the last entry and the directory. */
  between?: Buffer;
  /** Between the directory and the record at the end. */
  behindDirectory?: Buffer;
  comment?: Buffer;
  after?: Buffer;
  count?: number;
  disk?: number;
  directoryStart?: number;
};

/** A zip of these entries, made by hand so that it can be wrong in any way. */
export function makeZip(items: readonly ZipItem[], frame: ZipFrame = {}): Buffer {
  const parts = [frame.before ?? Buffer.alloc(0)];
  let at = parts[0]?.length ?? 0;
  const listed: Buffer[] = [];
  for (const item of items) {
    const { facts, packed } = honest(item);
    listed.push(directoryEntry(item, facts, item.start ?? at));
    if (item.isListedOnly) continue;
    const head = localHeader({ ...facts, ...item.local }, item.local?.signature ?? "PK\u0003\u0004");
    parts.push(head, packed);
    at += head.length + packed.length;
  }
  const directory = Buffer.concat(listed);
  const { between = Buffer.alloc(0), behindDirectory = Buffer.alloc(0), comment = Buffer.alloc(0) } = frame;
  const count = frame.count ?? items.length;
  const start = frame.directoryStart ?? at + between.length;
  const end = bytes("PK\u0005\u0006", [
    [frame.disk ?? 0, 2],
    [frame.disk ?? 0, 2],
    [count, 2],
    [count, 2],
    [directory.length, 4],
    [start, 4],
    [comment.length, 2],
  ]);
  return Buffer.concat([
    ...parts,
    between,
    directory,
    behindDirectory,
    end,
    comment,
    frame.after ?? Buffer.alloc(0),
  ]);
}

/** An extra field, as it stands behind a name. */
export function extraField(id: number, data: Buffer): Buffer {
  return Buffer.concat([
    bytes("", [
      [id, 2],
      [data.length, 2],
    ]),
    data,
  ]);
}

/** Numbers, each in so many bytes, behind a signature. */
export function bytes(signature: string, fields: readonly (readonly [number | bigint, number])[]): Buffer {
  const numbers = fields.map(([value, length]) => {
    const field = Buffer.alloc(8);
    field.writeBigUInt64LE(BigInt(value));
    return field.subarray(0, length);
  });
  return Buffer.concat([Buffer.from(signature, "latin1"), ...numbers]);
}

function honest(item: ZipItem): { facts: Required<ZipFacts>; packed: Buffer } {
  const content = Buffer.from(item.content ?? "");
  const method = item.method ?? 8;
  const packed = item.packed ?? (method === 8 ? deflateRawSync(content) : content);
  const facts = {
    name: item.name,
    flags: item.flags ?? 0x800,
    method,
    crc32: item.crc32 ?? crc32(content),
    packedBytes: item.packedBytes ?? packed.length,
    bytes: item.bytes ?? content.length,
    extra: item.extra ?? Buffer.alloc(0),
  };
  return { facts, packed };
}

function localHeader(facts: Required<ZipFacts>, signature: string): Buffer {
  const name = Buffer.from(facts.name);
  return Buffer.concat([bytes(signature, [[20, 2], ...common(facts, name)]), name, facts.extra]);
}

function directoryEntry(item: ZipItem, facts: Required<ZipFacts>, start: number): Buffer {
  const name = Buffer.from(facts.name);
  const fields: (readonly [number, number])[] = [
    [((item.host ?? 3) << 8) | 20, 2],
    [20, 2],
    ...common(facts, name),
    [0, 2],
    [0, 2],
    [0, 2],
    [((item.mode ?? 0) << 16) >>> 0, 4],
    [start, 4],
  ];
  return Buffer.concat([bytes("PK\u0001\u0002", fields), name, facts.extra]);
}

function common(facts: Required<ZipFacts>, name: Buffer): (readonly [number, number])[] {
  return [
    [facts.flags, 2],
    [facts.method, 2],
    [0, 2],
    [0x21, 2],
    [facts.crc32, 4],
    [facts.packedBytes, 4],
    [facts.bytes, 4],
    [name.length, 2],
    [facts.extra.length, 2],
  ];
}
