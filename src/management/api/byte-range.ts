/** Bytes of a file, the last one included. */
export type ByteRange = { readonly first: number; readonly last: number };

const RANGE = /^bytes=(?:(\d{1,15})-(\d{0,15})|-(\d{1,15}))$/;

/**
 * What a Range header asks for of a file of that size: null for all of it, as also where several ranges are asked
 * for; "none" when it has no such bytes.
 */
export function readRange(header: string | undefined, sizeBytes: number): ByteRange | "none" | null {
  const [, from, to, suffix] = RANGE.exec(header ?? "") ?? [];
  if (suffix !== undefined) {
    const count = Math.min(Number(suffix), sizeBytes);
    return count === 0 ? "none" : { first: sizeBytes - count, last: sizeBytes - 1 };
  }
  if (from === undefined) return null;
  const first = Number(from);
  const last = to === undefined || to === "" ? sizeBytes - 1 : Math.min(Number(to), sizeBytes - 1);
  if (to && Number(to) < first) return null; // Not a range, which counts as none asked for.
  return first >= sizeBytes ? "none" : { first, last };
}
