/** How a frame is made, good or bad. */
export type FrameParts = {
  readonly opcode?: number;
  readonly isFinal?: boolean;
  /** The three reserved bits, as a number. */
  readonly reserved?: number;
  /** Null for none. */
  readonly mask?: Buffer | null;
  readonly payload?: Buffer;
  /** How many bytes tell the length; by default as few as can. */
  readonly lengthBytes?: 0 | 2 | 8;
  /** What they tell, if not the truth. */
  readonly length?: bigint;
};

export const MASK = Buffer.from([0x11, 0x22, 0x33, 0x44]);

/** A frame with exactly these parts, masked as a client's unless it says otherwise. */
export function frame(parts: FrameParts = {}): Buffer {
  const { opcode = 1, isFinal = true, reserved = 0, mask = MASK, payload = Buffer.from("hello") } = parts;
  const length = parts.length ?? BigInt(payload.length);
  const lengthBytes = parts.lengthBytes ?? (length < 126n ? 0 : length < 65_536n ? 2 : 8);
  const first = (isFinal ? 0x80 : 0) | (reserved << 4) | opcode;
  const short = lengthBytes === 0 ? Number(length) : lengthBytes === 2 ? 126 : 127;
  const head = Buffer.alloc(2 + lengthBytes);
  head[0] = first;
  head[1] = (mask ? 0x80 : 0) | short;
  if (lengthBytes === 2) head.writeUInt16BE(Number(length), 2);
  if (lengthBytes === 8) head.writeBigUInt64BE(length, 2);
  const body = mask ? Buffer.from(payload.map((byte, at) => byte ^ (mask[at % 4] ?? 0))) : payload;
  return Buffer.concat([head, mask ?? Buffer.alloc(0), body]);
}
