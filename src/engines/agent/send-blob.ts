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

/**
 * Sends a blob to an agent, unpacked, because few Pythons can do that. Behind its last byte comes the SHA-256 of all that
 * was sent, and only if the blob is the one that its hash names.
 */
export async function sendBlob(blobs: Blobs, hash: string, socket: Socket): Promise<void> {
  socket.setTimeout(SILENCE_MS, () => socket.destroy());
  // It has shown what it wants, and says nothing more.
  socket.resume();
  let isWhole = false;
  const packed = async function* (): AsyncGenerator<Buffer, void, void> {
    yield* blobs.open(hash);
    isWhole = true;
  };
  const sealed = async function* (pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, void> {
    const digest = createHash("sha256");
    for await (const piece of pieces) {
      digest.update(piece);
      yield piece;
    }
    // What is unpacked may end before the blob does.
    if (!isWhole) throw new Error(`the blob ${hash} goes on behind its archive`);
    yield digest.digest();
  };
  try {
    await pipeline(packed, createZstdDecompress(), sealed, socket);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // The agent has gone: it was ended, or its machine was.
    if (code !== "ERR_STREAM_PREMATURE_CLOSE" && code !== "EPIPE" && code !== "ECONNRESET") throw error;
  }
}
