import { constants, crc32, deflateRawSync } from "node:zlib";

/** Deflate, no name, no time, operating system unknown. */
const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
/** An empty last block in fixed codes: 2 bytes, where a stored one has 5. */
const LAST_BLOCK = Buffer.from([0x03, 0x00]);
const TRAILER_BYTES = 8;
const STORED_HEAD_BYTES = 5;
/** The length of a stored block has 16 bits. */
const MAX_PART_BYTES = 0xffff;
/** Below it, a call of deflate (12 µs before the first byte) saves too little: see decision 0008. */
const MIN_DEFLATE_BYTES = 512;
const EMPTY = Buffer.alloc(0);

/** Fast rather than small: the state is set up for each call. */
const DEFLATE = { level: 1, windowBits: 12, memLevel: 5, finishFlush: constants.Z_SYNC_FLUSH };

/**
 * One gzip member in pieces: `begin`, any number of `add`, `end`. A receiver can decode each piece at once. Keeps two numbers
 * and no zlib state, so that an open stream costs next to nothing; in return, a piece does not refer to earlier ones.
 */
export class GzipMember {
  #crc = 0;
  /** Modulo 2^32, as in the trailer. */
  #plainBytes = 0;

  /** The header; shared, so it must not be written to. */
  begin(): Buffer {
    return HEADER;
  }

  /** The data as whole blocks that end on a byte; `blocks` if they are made already. */
  add(data: Buffer, blocks: Buffer = gzipBlocks(data)): Buffer {
    this.#crc = crc32(data, this.#crc);
    this.#plainBytes = (this.#plainBytes + data.length) >>> 0;
    return blocks;
  }

  /** The last block and the trailer, which show that nothing is missing. */
  end(): Buffer {
    const end = Buffer.allocUnsafe(LAST_BLOCK.length + TRAILER_BYTES);
    LAST_BLOCK.copy(end);
    end.writeUInt32LE(this.#crc, LAST_BLOCK.length);
    end.writeUInt32LE(this.#plainBytes, LAST_BLOCK.length + 4);
    return end;
  }
}

/** The data as blocks, the same for every member. */
export function gzipBlocks(data: Buffer): Buffer {
  if (data.length === 0) return EMPTY;
  if (data.length <= MAX_PART_BYTES) return writePart(data);
  const parts: Buffer[] = [];
  for (let at = 0; at < data.length; at += MAX_PART_BYTES) {
    parts.push(writePart(data.subarray(at, at + MAX_PART_BYTES)));
  }
  return Buffer.concat(parts);
}

function writePart(data: Buffer): Buffer {
  if (data.length < MIN_DEFLATE_BYTES) return writeStored(data);
  const deflated = deflateRawSync(data, DEFLATE);
  // Images and the like grow by deflate.
  return deflated.length < data.length + STORED_HEAD_BYTES ? deflated : writeStored(data);
}

function writeStored(data: Buffer): Buffer {
  const block = Buffer.allocUnsafe(STORED_HEAD_BYTES + data.length);
  block[0] = 0;
  block.writeUInt16LE(data.length, 1);
  block.writeUInt16LE(data.length ^ 0xffff, 3);
  data.copy(block, STORED_HEAD_BYTES);
  return block;
}
