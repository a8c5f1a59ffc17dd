import { createHash } from "node:crypto";
import { BlobDamaged, MAX_BLOB_BYTES } from "./blob-store.ts";

/**
 * Passes on the bytes of a whole blob; throws `BlobDamaged` as soon as there are more than it has, and at their end if they
 * are not those of its hash.
 */
export async function* verified(
  pieces: AsyncIterable<Buffer>,
  hash: string,
  place: string,
  bytes: number | null = null,
): AsyncGenerator<Buffer, void, void> {
  const digest = createHash("sha256");
  let left = bytes ?? MAX_BLOB_BYTES;
  for await (const piece of pieces) {
    left -= piece.length;
    if (left < 0) throw new BlobDamaged(hash, place);
    digest.update(piece);
    yield piece;
  }
  if (digest.digest("hex") !== hash) throw new BlobDamaged(hash, place);
}

/** Counts and hashes what passes; throws beyond the largest blob there may be. */
export class Passed {
  readonly #digest = createHash("sha256");
  bytes = 0;

  take(piece: Uint8Array): void {
    this.bytes += piece.length;
    if (this.bytes > MAX_BLOB_BYTES) throw new Error(`a blob may have at most ${MAX_BLOB_BYTES} bytes`);
    this.#digest.update(piece);
  }

  /** Of all that has passed; nothing may pass afterwards. */
  hash(): string {
    return this.#digest.digest("hex");
  }
}
