import { randomBytes } from "node:crypto";
import { GzipMember } from "../../src/kit/gzip-member.ts";

/** Messages of a stream, so many bytes of them. */
export const text = (bytes: number): Buffer =>
  Buffer.from("data: one message of a stream\n\n".repeat(bytes / 31 + 1)).subarray(0, bytes);

const SIZES = [0, 1, 30, 511, 512, 513, 2048, 65_534, 65_535, 65_536, 200_000];

/** Pieces of text and of noise, around the sizes at which the format changes. */
export const SAMPLES: readonly Buffer[] = [
  ...SIZES.map(text),
  ...SIZES.map((size) => randomBytes(size)),
  text(30),
];

/** The member's pieces: the header, one per sample, the end. */
export function writeMember(samples: readonly Buffer[]): Buffer[] {
  const member = new GzipMember();
  return [member.begin(), ...samples.map((sample) => member.add(sample)), member.end()];
}
