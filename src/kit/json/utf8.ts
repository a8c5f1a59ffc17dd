import { isUtf8 } from "node:buffer";

const BLOCK_BYTES = 4096;

/** The offset of the first byte that is not part of a valid UTF-8 sequence; -1 when all are. */
export function firstBadUtf8(body: Buffer): number {
  if (isUtf8(body)) return -1;
  let at = 0;
  while (at < body.length) {
    const blockEnd = sequenceStart(body, at + BLOCK_BYTES);
    if (isUtf8(body.subarray(at, blockEnd))) {
      at = blockEnd;
      continue;
    }
    while (at < blockEnd) {
      const next = at + sequenceBytes(body[at]!);
      if (!isUtf8(body.subarray(at, next))) return at;
      at = next;
    }
  }
  return -1;
}

/** Moves `at` back to where a sequence begins, so that a block never ends inside one. */
function sequenceStart(body: Buffer, at: number): number {
  if (at >= body.length) return body.length;
  let start = at;
  // A sequence has at most three continuation bytes; more of them are a fault wherever the block ends.
  while (start > at - 3 && (body[start]! & 0xc0) === 0x80) start -= 1;
  return start;
}

function sequenceBytes(lead: number): number {
  if (lead < 0xc0) return 1;
  if (lead < 0xe0) return 2;
  return lead < 0xf0 ? 3 : 4;
}
