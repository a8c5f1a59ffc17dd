import { createHash } from "node:crypto";
import type { Socket } from "node:net";
import { pipeline } from "node:stream/promises";
import { createZstdDecompress } from "node:zlib";

/** Where what is large is kept, by its hash. */
export type Blobs = {
  /** The bytes of a blob; throws at their end if they are not those of the hash. */
  open(hash: string): AsyncIterable<Buffer>;
};

/** How long an agent may take nothing. */
const SILENCE_MS = 60_000;

/** How a blob begins that a service has packed. */
const ZSTD = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/**
 * Sends a blob to an agent: unchanged if an agent packed it, and decompressed if a service did, because few Pythons know
 * zstd. Behind the last byte comes the SHA-256 of all that was sent, but only if the blob is the one that its hash names.
 */
export async function sendBlob(blobs: Blobs, hash: string, socket: Socket): Promise<void> {
  socket.setTimeout(SILENCE_MS, () => socket.destroy());
  // It has shown what it wants, and says nothing more.
  socket.resume();
  const pieces = blobs.open(hash)[Symbol.asyncIterator]();
  let isWhole = false;
  const rest = async function* (first: Buffer): AsyncGenerator<Buffer, void, void> {
    yield first;
    for (let next = await pieces.next(); next.done !== true; next = await pieces.next()) yield next.value;
    isWhole = true;
  };
  const unchanged = async function* (first: Buffer): AsyncGenerator<Buffer, void, void> {
    yield* rest(first);
    yield Buffer.from(hash, "hex");
  };
  const withDigest = async function* (unpacked: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, void> {
    const digest = createHash("sha256");
    for await (const piece of unpacked) {
      digest.update(piece);
      yield piece;
    }
    // The archive may end before the blob does.
    if (!isWhole) throw new Error(`the blob ${hash} goes on behind its archive`);
    yield digest.digest();
  };
  try {
    let first: Buffer = Buffer.alloc(0);
    while (first.length < ZSTD.length) {
      const { done, value } = await pieces.next();
      if (done === true) break;
      first = Buffer.concat([first, value]);
    }
    if (first.subarray(0, ZSTD.length).equals(ZSTD))
      await pipeline(rest(first), createZstdDecompress(), withDigest, socket);
    else await pipeline(unchanged(first), socket);
  } catch (error) {
    socket.destroy();
    const { code } = error as NodeJS.ErrnoException;
    // The agent has gone: it was ended, or its machine was.
    if (code !== "ERR_STREAM_PREMATURE_CLOSE" && code !== "EPIPE" && code !== "ECONNRESET") throw error;
  } finally {
    await pieces.return?.();
  }
}
